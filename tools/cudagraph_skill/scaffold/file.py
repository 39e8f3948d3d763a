"""`skill scaffold`: what was asked for to a program for the versions at hand, and the file that it is written to."""

from __future__ import annotations

import difflib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture import interpreter
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import rules
from cudagraph_skill.scaffold import versions as installed
from cudagraph_skill.scaffold.rules import WORKFLOWS, Options
from cudagraph_skill.text import operand, quoted, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ALIASES = {
    "te": "transformer-engine",
    "mgc": "make-graphed-callables",
    "compile": "reduce-overhead",
    "graph": "manual",
    "per-layer": "mcore-per-layer",
    "full-iteration": "mcore-full-iteration",
}
_SEVERAL = {"megatron": "mcore-", "mcore": "mcore-", "megatron-core": "mcore-"}  # which begin so; the user has to choose
_IMPORTED = ("torch", "triton", "numpy", "transformer_engine", "megatron")
_PLAIN = re.compile(r"[\w./+-]{1,60}")  # a file name that may stand in the program's docstring


class Program(NamedTuple):
    """A program: `written_for` says which versions, and how they were found; `command` are the arguments that make it again.

    `unused` are versions that were asked for, of packages that the program does not use.
    """

    options: Options
    versions: dict[str, str]
    written_for: str
    text: str
    command: str
    unused: tuple[str, ...] = ()


def workflow(text: str) -> str:
    """The name of a workflow that was given by name, by its number in SKILL.md, by an alias, or as torch calls it.

    Raises:
        SkillError: there is none of that name; the sentence has the nearest.
    """
    name = re.sub(r"[\s_]+", "-", re.sub(r"^torch\.(cuda\.)?", "", text.strip().lower()))
    numbers = {str(each.number): slug for slug, each in WORKFLOWS.items()}
    found = numbers.get(name) or _ALIASES.get(name, name)
    if found in WORKFLOWS:
        return found
    near = [slug for slug in WORKFLOWS if slug.startswith(_SEVERAL.get(name, "-"))]
    near = near or [_ALIASES.get(each, each) for each in difflib.get_close_matches(name, [*WORKFLOWS, *_ALIASES], 1)]
    if near:
        nearest = " or ".join(f"`--workflow {each}`" for each in near)
        raise SkillError(f"skill scaffold: there is no workflow {shortened(text)}; nearest: {nearest}")
    raise SkillError(
        f"skill scaffold: there is no workflow {shortened(text)}; there are {', '.join(WORKFLOWS)} "
        "(`skill scaffold` says what each is for, `skill recommend` which to take)"
    )


def options(asked: Mapping[str, Any]) -> Options:
    """The options that were asked for: `asked` has the fields of Options and `inference`; "", 0, False, None ask for nothing.

    Raises:
        SkillError: there is no such workflow, or no such program.
    """
    given = {name: asked[name] for name in Options._fields if asked.get(name)}
    given["workflow"] = workflow(asked["workflow"])
    if given["workflow"] in rules.ALWAYS_TRAIN and not asked.get("inference"):
        given["training"] = True
    return rules.checked(Options(**given))


def write(wanted: Options, versions: Sequence[str], python: str, file: str = "") -> Program:
    """The program for `versions` ("torch==2.6"), and for what the interpreter `python` has ("" for the environment's).

    Raises:
        SkillError: a version is none, or none that the templates know; the interpreter that was named does not answer.
    """
    needed = _needed(wanted)
    named = rules.versions(versions, {})  # what is wrong with --for is said before anything is started
    unused = tuple(each for each in versions if _package(each) not in needed)
    used = [each for each in versions if each not in unused]
    said = [each for each in needed if any(_package(text) == each for text in used)]
    found, where = ({}, "") if len(said) == len(needed) else _found(python)
    at_hand = {name: version for name, version in found.items() if name in needed and name not in said}
    chosen = rules.versions(versions, at_hand) if at_hand else named
    releases = {name.replace("_", "-"): "{}.{}".format(*getattr(chosen, name)) for name in needed}
    sources = [_source(each in said, each in at_hand, where) for each in needed]
    text = rules.program(wanted, chosen, shown(file))
    again = " ".join([rules.spelled(wanted), *(f"--for {quoted(each)}" for each in used)])
    return Program(wanted, releases, _written_for(releases, sources), text, again, unused)


def _needed(wanted: Options) -> list[str]:
    """The packages whose releases decide what the program is like."""
    megatron = wanted.workflow.startswith("mcore-")
    engine = wanted.workflow == "transformer-engine" or (megatron and wanted.fp8)
    return ["torch", *["transformer_engine"] * engine, *["megatron_core"] * megatron]


def _package(requirement: str) -> str:
    return re.sub(r"[.-]", "_", re.split(r"\s*=", requirement.strip())[0].lower())


def _found(python: str) -> tuple[dict[str, str], str]:
    """What the interpreter has, and what it is called; nothing where none was named and there is none that answers."""
    if python:
        return installed.releases(python), python
    try:
        python = interpreter.environment_python()
        return installed.releases(python), python
    except SkillError:
        return {}, python or "this machine"


def _source(said: bool, at_hand: bool, where: str) -> str:
    if said:
        return "as `--for` says"
    return f"as installed in {where}" if at_hand else f"the newest known, {where} has none"


def _written_for(releases: Mapping[str, str], sources: Sequence[str]) -> str:
    """For example "torch 2.11 (as installed in /usr/bin/python3)"."""
    groups: dict[str, list[str]] = {}
    for (name, release), source in zip(releases.items(), sources, strict=True):
        groups.setdefault(source, []).append(f"{name} {release}")
    return ", ".join(f"{' and '.join(names)} ({source})" for source, names in groups.items())


def shown(file: str) -> str:
    """The file as the program names it in its docstring."""
    if not file:
        return "step.py"
    return file if _PLAIN.fullmatch(file) else "FILE"


def processes(text: str) -> int:
    """How many processes a program is for: as its docstring gives torchrun, else two where it starts a process group.

    One that can start a group of one does so without torchrun, as those of Megatron do.
    """
    found = re.search(r"--nproc[-_]per[-_]node[ =](\d{1,3})\b", text)
    if "init_process_group" not in text or (not found and re.search(r"\bworld_size=1\b", text)):
        return 1
    return max(1, int(found[1])) if found else 2


# The file ------------------------------------------------------------------------------------------------------------


def writable(file: str, force: bool) -> Path:
    """The place that `file` names, if a program may be written there.

    Raises:
        SkillError: it may not, with what to change.
    """
    path = Path(file)
    try:
        real = Path(os.path.realpath(path))  # a link stays a link
        why = _obstacle(file, path, force)
    except (OSError, ValueError) as error:  # too long for a name, or NULs in it
        why = f"{getattr(error, 'strerror', None) or error}; name another file"
    if why:
        raise SkillError(f"skill scaffold: `--into {operand(shortened(file))}`: {why}")
    return real


def _obstacle(file: str, path: Path, force: bool) -> str:
    """Why nothing may be written there, and what to change; "" if it may."""
    if not file or path.is_dir():
        return f"a file is needed, for example `--into {operand(str(path / 'step.py'))}`"
    if path.suffix != ".py":
        return f"Python imports files whose name ends in .py; for example `--into {operand(str(path.with_suffix('.py')))}`"
    if path.stem in sys.stdlib_module_names or path.stem in _IMPORTED:
        other = operand(str(path.with_name(f"my_{path.stem}.py")))
        return f"Python would import it in place of the module {path.stem}; name it otherwise, for example {other}"
    if not path.parent.is_dir():
        if os.path.lexists(path.parent):
            return f"{path.parent} is no folder; name one that is"
        return f"there is no folder {path.parent}: make it first, `mkdir -p {operand(str(path.parent))}`"
    return _occupied(path, force)


def _occupied(path: Path, force: bool) -> str:
    """Why what is at that place, or the folder, stands in the way."""
    if os.path.lexists(path) and not force:
        return "it is there already, and stays as it is: name another file, or add `--force` to replace it"
    if path.exists() and not path.is_file():
        return "that is no file that could be replaced; name another"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "it is write-protected; name a file that you may write"
    return ""


def save(text: str, file: str, force: bool = False) -> None:
    """Write the program, whole or not at all; a file that is there is replaced with `force` only.

    Raises:
        SkillError: it cannot be written, or is there.
    """
    path = writable(file, force)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".scaffold.", suffix=".py")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                new.write(text)
                path.touch(exist_ok=force)  # so that one which came meanwhile is seen, and a new one has the usual rights
                os.fchmod(new.fileno(), path.stat().st_mode & 0o7777)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except FileExistsError:
        raise SkillError(f"skill scaffold: {file} is there already and stays as it is: add `--force` to replace it") from None
    except OSError as error:
        raise SkillError(
            f"skill scaffold: `--into {operand(file)}`: not written: {error.strerror}; name a file in a folder of yours"
        ) from None
