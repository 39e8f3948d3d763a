"""Check what the commands need on this machine, and what was installed with `skill install`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill import __version__
from cudagraph_skill.capture.interpreter import DISTRIBUTIONS, environment_python
from cudagraph_skill.corpus import cache
from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import cache_dir, skill_root
from cudagraph_skill.setup import entry, environment, extras, folder, serving
from cudagraph_skill.setup.clients import CLIENTS, NAME, Client, configuration, skills
from cudagraph_skill.setup.jsonc import BrokenError
from cudagraph_skill.setup.registration import table
from cudagraph_skill.text import operand

if TYPE_CHECKING:
    from collections.abc import Iterator


class Check(NamedTuple):
    """Hold one check: `state` is "ok", "none" (not there, and nothing to fix) or "wrong", which has a fix."""

    name: str
    state: str
    said: str
    fix: str = ""


def checks(python: str = "", project: Path | None = None) -> list[Check]:
    """Return every check: of the interpreter that has torch, of the GPU, of the index, of clients.

    Args:
        python: The interpreter with torch; "" is that of the active environment.
        project: The folder whose configurations are looked at, besides the user's.
    """
    gpu, devices = _gpu()
    found = [*_interpreter(python, devices), gpu, _packages(), _index(), _name()]
    return [*found, *_clients(project), *_skills(project)]


def _gpu() -> tuple[Check, int]:
    """Return the check of driver and GPU, and how many there are."""
    try:
        found = environment.gpus()
    except SkillError as error:
        fix = "restart the machine, or install the driver again: `nvidia-smi` must list the GPU"
        return Check("gpu", "wrong", str(error), fix), 0
    if found is None:
        return Check("gpu", "none", "no NVIDIA driver here (nvidia-smi is not there): what runs on a GPU must run elsewhere"), 0
    names = ", ".join(f"{name}, driver {driver}" for name, driver in found)
    return Check("gpu", "ok", names), len(found)


def _interpreter(python: str, devices: int) -> Iterator[Check]:
    try:
        python = python or environment_python()
        facts = environment.facts(python)
    except SkillError as error:
        yield Check("python", "wrong", str(error), "name the Python that has torch with `--python`")
        return
    version = facts["python"]
    if _release(version) < (3, 10):
        yield Check("python", "wrong", f"{python} is Python {version}", "name a Python 3.10 or newer with `--python`")
    else:
        yield Check("python", "ok", f"{version} at {python}")
    yield _torch(python, facts, devices)
    packages = facts["packages"]
    for name in list(DISTRIBUTIONS)[1:]:
        yield Check(name.replace("_", "-"), "ok" if name in packages else "none", packages.get(name, "not installed"))


def _torch(python: str, facts: dict[str, Any], devices: int) -> Check:
    version, pip = facts["packages"].get("torch", ""), f"{operand(python)} -m pip install"
    if not version:
        said = f"not installed for {python}"
        return Check("torch", "wrong", said, f"`{pip} torch`, or `--python`") if devices else Check("torch", "none", said)
    build = f"CUDA {facts['cuda']}" if facts.get("cuda") else "no CUDA"
    said = f"{version}, built for {build}"
    if failed := facts.get("failed"):
        return Check("torch", "wrong", f"{version} cannot be imported: {failed[:300]}", f"`{pip} --force-reinstall torch`")
    if _release(version) < (2, 4):
        return Check("torch", "wrong", f"{said}: what runs on the GPU needs 2.4", f"`{pip} --upgrade torch`")
    if devices and not facts.get("cuda"):
        way = f"`{pip} --force-reinstall torch` from an index with CUDA builds"
        return Check("torch", "wrong", f"{said}, and this machine has a GPU", way)
    if devices and not facts.get("sees"):
        why = "sees no GPU: the driver is older than this CUDA needs, or CUDA_VISIBLE_DEVICES hides it"
        return Check("torch", "wrong", f"{said}, {why}", "install a newer driver, or a torch for an older CUDA")
    return Check("torch", "ok", f"{said}, sees {facts['sees']} GPU" if devices else said)


def _release(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _packages() -> Check:
    """Return the check of what this Python needs for our own commands."""
    lacks = serving.missing()
    if not lacks:
        return Check("server", "ok", f"{sys.executable} has what `skill serve` needs")
    said = f"{sys.executable} lacks {', '.join(lacks)}, which `skill serve` needs (`search` and `check` do not)"
    return Check("server", "none", f"{said}: `{extras.installing(lacks)}`")


def _index() -> Check:
    name, fix = "index", "set CUDAGRAPH_SKILL_CACHE to a folder of your own that you can write to"
    try:
        path = cache_dir()
        place = path if os.path.lexists(path) else next(parent for parent in path.absolute().parents if parent.exists())
        if not place.is_dir():
            raise NotADirectoryError(0, "a file is in its way", str(place))
        if place == path:
            cache.folder()
        if not os.access(place, os.W_OK) or not place.stat().st_mode & 0o222:
            raise PermissionError(0, "it is write-protected", str(place))
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return Check(name, "wrong", f"it cannot be kept, so each call builds it: {error.strerror or error}{where}", fix)
    kept = [each for each in path.glob("index-*") if cache.is_whole(each)] if path.exists() else []
    return Check(name, "ok", f"{len(kept)} kept in {path}" if kept else f"built at the first question, in {path}")


def _name() -> Check:
    """Return the check of what `skill` starts in a shell."""
    path, other = shutil.which("skill"), shutil.which(extras.PROJECT)
    if path is not None and serving.is_ours(Path(path)):
        return Check("command", "ok", f"`skill` is {path}")
    use = f"`{extras.PROJECT}`" if other is not None and serving.is_ours(Path(other)) else "`python -m cudagraph_skill`"
    why = "is not on the PATH" if path is None else f"is another program, {path}"
    return Check("command", "none", f"`skill` {why}: use {use}")


def _places(project: Path | None) -> Iterator[tuple[str, Client, Path | None]]:
    """Yield each client and scope."""
    for name, client in CLIENTS.items():
        yield name, client, None
        if project is not None:
            yield name, client, project


def _clients(project: Path | None) -> list[Check]:
    found, without = [], []
    for name, client, scope in _places(project):
        try:
            path = configuration(client, scope)
            text = path.read_text(encoding="utf-8-sig")
            server = entry.found(text, table(client))
        except (FileNotFoundError, NotADirectoryError, SkillError):
            continue
        except (OSError, ValueError) as error:
            why = str(error) if isinstance(error, BrokenError) else str(getattr(error, "strerror", None) or error)
            found.append(
                Check(name, "wrong", f"{path} cannot be read: {why}", f"correct it: {client.title} cannot read it either")
            )
            continue
        if server is None:
            without.append(str(path))
        else:
            found.append(_registered(name, path, server, scope))
    if without:
        found.append(Check("clients", "none", f"without the server {NAME}: {', '.join(without)}"))
    return found or [Check("clients", "none", "no configuration of a client is here")]


def _registered(name: str, path: Path, server: dict[str, Any], scope: Path | None) -> Check:
    command, arguments = server.get("command"), server.get("args")
    if not isinstance(command, str):
        return Check(name, "none", f"{path}: the server {NAME} is not started by a command")
    words = [command, *(arguments if isinstance(arguments, list) else [])]
    why = serving.lost(words)
    if not why and not command.startswith("/") and shutil.which(command) is None:
        why = f"{command} is not on the PATH"
    if why:
        return Check(name, "wrong", f"{path}: {why}", f"register it again: `skill install {name}{_scope(scope)} --yes`")
    return Check(name, "ok", f"{path} starts {' '.join(map(str, words))}")


def _skills(project: Path | None) -> list[Check]:
    """Return a check for each copy of the skill in a client's folder."""
    found: dict[Path, Check] = {}
    for name, client, scope in _places(project):
        try:
            path = skills(client, scope)
        except SkillError:
            continue
        if path not in found and (path / "SKILL.md").is_file() and path.resolve() != skill_root():
            found[path] = _copy(name, path, scope)
    return list(found.values())


def _copy(name: str, path: Path, scope: Path | None) -> Check:
    version, again = folder.version(path), f"`skill install {name} --as skill{_scope(scope)} --yes`"
    if version != __version__:
        return Check("skill folder", "wrong", f"{path} is version {version or 'unknown'}, this is {__version__}", again)
    differing = folder.differing(path)
    if differing:
        return Check("skill folder", "wrong", f"{path}: {differing} files are missing or not those of this package", again)
    return Check("skill folder", "ok", f"{path}, version {version}")


def _scope(scope: Path | None) -> str:
    return f" --scope project --folder {operand(str(scope))}" if scope else ""
