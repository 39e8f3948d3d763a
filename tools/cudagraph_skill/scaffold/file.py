"""Make the program that a request asks for, and write it to its file."""

from __future__ import annotations

import difflib
import keyword
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill import files
from cudagraph_skill.capture import interpreter
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import render, rules
from cudagraph_skill.scaffold import versions as releases
from cudagraph_skill.scaffold.options import ALWAYS_TRAIN, WORKFLOWS, Options, spelled
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
_PREFIXES = {"megatron": "mcore-", "mcore": "mcore-", "megatron-core": "mcore-"}  # of several workflows: the user chooses
_IMPORTED = ("torch", "triton", "numpy", "transformer_engine", "megatron")
_PLAIN = re.compile(r"[\w./+-]{1,60}")  # a file name that the program's docstring can hold


class Program(NamedTuple):
    """A program: `written_for` says for which versions and where they come from; `command` holds the arguments that make it.

    `unused` are requested versions of packages that the program does not use; `checks` is the text of the second file of a
    program that is a module, else "".
    """

    options: Options
    versions: dict[str, str]
    written_for: str
    text: str
    command: str
    unused: tuple[str, ...] = ()
    checks: str = ""


def workflow(text: str) -> str:
    """Return the workflow that has this name, number in SKILL.md, alias, or name in torch.

    Raises:
        SkillError: No workflow has that name; the message gives the nearest.
    """
    name = re.sub(r"[\s_]+", "-", re.sub(r"^torch\.(cuda\.)?", "", text.strip().lower()))
    numbers = {str(known.number): slug for slug, known in WORKFLOWS.items()}
    slug = numbers.get(name) or _ALIASES.get(name, name)
    if slug in WORKFLOWS:
        return slug
    near = [slug for slug in WORKFLOWS if slug.startswith(_PREFIXES.get(name, "-"))]
    near = near or [_ALIASES.get(match, match) for match in difflib.get_close_matches(name, [*WORKFLOWS, *_ALIASES], 1)]
    if near:
        nearest = " or ".join(f"`--workflow {slug}`" for slug in near)
        raise SkillError(f"skill scaffold: there is no workflow {shortened(text)}; nearest: {nearest}")
    raise SkillError(
        f"skill scaffold: there is no workflow {shortened(text)}; there are {', '.join(WORKFLOWS)} "
        "(`skill scaffold` describes each, `skill recommend` chooses one)"
    )


def options(asked: Mapping[str, Any]) -> Options:
    """Return the requested options.

    Args:
        asked: The fields of Options and `inference`; "", 0, False and None request nothing.

    Raises:
        SkillError: There is no such workflow, or no program for these options.
    """
    given = {name: asked[name] for name in Options._fields if asked.get(name)}
    given["workflow"] = workflow(asked["workflow"])
    if given["workflow"] in ALWAYS_TRAIN and not asked.get("inference"):
        given["training"] = True
    return rules.checked(rules.implied(Options(**given)))


def write(wanted: Options, versions: Sequence[str], python: str, file: str = "", module: bool = False) -> Program:
    """Render the program for `versions` ("torch==2.6"), and otherwise for the releases that `python` has installed.

    Args:
        wanted: Options that do not clash.
        versions: Requirements as `--for` takes them.
        python: The user's interpreter; "" for that of the active environment.
        file: The file that the program's docstring names.
        module: Write it as a module and its checks.

    Raises:
        SkillError: A version is invalid or not supported; the named interpreter does not answer; the program is no module.
    """
    if module:
        rules.divisible(wanted)
    needed = _packages(wanted)
    releases.choose(versions, {})  # report a mistake in --for before an interpreter is started
    used = [text for text in versions if releases.package_of(text) in needed]
    unused = tuple(text for text in versions if text not in used)
    named = {releases.package_of(text) for text in used}
    installed, where = _installed(python) if named < set(needed) else ({}, "")
    rest = {name: version for name, version in installed.items() if name in needed and name not in named}
    chosen = releases.choose(versions, rest)
    written_for = {name.replace("_", "-"): releases.dotted(getattr(chosen, name)) for name in needed}
    sources = [_source(name in named, name in rest, where) for name in needed]
    if module:
        text, checks = render.module(wanted, chosen, _shown_module(file))
    else:
        text, checks = render.program(wanted, chosen, shown(file)), ""
    command = " ".join([spelled(wanted), *(f"--for {quoted(version)}" for version in used), *["--module"] * module])
    return Program(wanted, written_for, _written_for(written_for, sources), text, command, unused, checks)


def _packages(wanted: Options) -> list[str]:
    """Return the packages whose releases change the program."""
    megatron = wanted.workflow.startswith("mcore-")
    engine = wanted.workflow == "transformer-engine" or (megatron and wanted.fp8)
    return ["torch", *["transformer_engine"] * engine, *["megatron_core"] * megatron]


def _installed(python: str) -> tuple[dict[str, str], str]:
    """Return what the interpreter has installed, and its name; nothing if none was named and none answers."""
    if python:
        return releases.installed(python), python
    try:
        python = interpreter.environment_python()
        return releases.installed(python), python
    except SkillError:
        return {}, python or "this machine"


def _source(named: bool, installed: bool, where: str) -> str:
    if named:
        return "as `--for` says"
    return f"as installed in {where}" if installed else f"the newest supported, {where} has none"


def _written_for(versions: Mapping[str, str], sources: Sequence[str]) -> str:
    """Return for example "torch 2.11 (as installed in /usr/bin/python3)"."""
    groups: dict[str, list[str]] = {}
    for (name, release), source in zip(versions.items(), sources, strict=True):
        groups.setdefault(source, []).append(f"{name} {release}")
    return ", ".join(f"{' and '.join(names)} ({source})" for source, names in groups.items())


def shown(file: str) -> str:
    """Return the name by which the program's docstring calls its file."""
    if not file:
        return "step.py"
    return file if _PLAIN.fullmatch(file) else "FILE"


def _shown_module(file: str) -> str:
    """Return the same for a module, whose name stands in an import too."""
    return shown(file) if not file or _PLAIN.fullmatch(file) else Path(file).name


def processes(text: str) -> int:
    """Return how many processes a program needs: the number its docstring gives torchrun, else 2 if it starts a process group.

    A program that can start a group of one runs without torchrun, as those for Megatron do.
    """
    launched = re.search(r"--nproc[-_]per[-_]node[ =](\d{1,3})\b", text)
    if "init_process_group" not in text or (not launched and re.search(r"\bworld_size=1\b", text)):
        return 1
    return max(1, int(launched[1])) if launched else 2


# The file ------------------------------------------------------------------------------------------------------------


def writable(file: str, force: bool) -> Path:
    """Return the path that `file` names if a program may be written there.

    Raises:
        SkillError: It may not; the message says what to change.
    """
    real, why = files.target(file, lambda path: _obstacle(file, path, force))  # write through a link, do not replace it
    if why:
        raise SkillError(f"skill scaffold: `--into {operand(shortened(file))}`: {why}")
    return real


def _obstacle(file: str, path: Path, force: bool) -> str:
    """Return why nothing may be written there and what to change; "" if it may."""
    if not file or path.is_dir():
        return f"a file is needed, for example `--into {operand(str(path / 'step.py'))}`"
    if path.suffix != ".py":
        return f"Python imports files whose name ends in .py; for example `--into {operand(str(path.with_suffix('.py')))}`"
    if path.stem in sys.stdlib_module_names or path.stem in _IMPORTED:
        other = operand(str(path.with_name(f"my_{path.stem}.py")))
        return f"Python would import it in place of the module {path.stem}; name it otherwise, for example {other}"
    return files.occupied(path, force)


def writable_module(file: str, force: bool) -> None:
    """Check that a module may be written to `file`, and its checks beside it.

    Raises:
        SkillError: One of them may not; the message says what to change.
    """
    writable(file, force)
    name = Path(file).stem
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SkillError(
            f"skill scaffold: `--into {operand(shortened(file))}`: its checks import it, and {shortened(name)} is no name of a "
            f"module; for example `--into {operand(str(Path(file).with_name('step.py')))}`"
        )
    writable(render.checks_file(file), force)


def save_program(program: Program, file: str, force: bool = False) -> None:
    """Write the program, and beside it the checks of a module; what stands in the way of either is found before.

    Raises:
        SkillError: It cannot be written, or is there.
    """
    if program.checks:
        writable_module(file, force)
        save(program.checks, render.checks_file(file), force)
    save(program.text, file, force)


def save(text: str, file: str, force: bool = False) -> None:
    """Write a file, whole or not at all; one that is there is replaced with `force` only.

    Raises:
        SkillError: It cannot be written, or is there.
    """
    path = writable(file, force)
    try:
        files.save(text, path, force)
    except FileExistsError:
        raise SkillError(f"skill scaffold: {file} is there already and stays as it is: add `--force` to replace it") from None
    except OSError as error:
        raise SkillError(
            f"skill scaffold: `--into {operand(file)}`: not written: {error.strerror}; name a file in a folder of yours"
        ) from None
