"""The command that starts the server on this machine."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.capture.interpreter import interpreter
from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root
from cudagraph_skill.setup import extras

if TYPE_CHECKING:
    from collections.abc import Sequence

NEEDS = {  # module: requirement
    "mcp": "mcp>=2.3,<3",
    "whoosh": "whoosh>=2.7.4,<3",
    "yaml": "pyyaml>=6",
    "markdown_it": "markdown-it-py>=3,<5",
    "jinja2": "jinja2>=3.1,<4",
}


def command(allow: Sequence[str] = (), python: str = "") -> list[str]:
    """Return the command with its arguments, every path absolute, since a client starts it in a folder of its own.

    Args:
        allow: Folders whose code the server may run.
        python: The interpreter that has torch.

    Raises:
        SkillError: A folder is none; or this Python lacks a package that the server needs (exit code 3).
    """
    if lacks := missing():
        raise SkillError(
            f"the server needs packages that {sys.executable} does not have: `{extras.installing(lacks)}`, "
            "or copy the skill's files, `--as skill`",
            3,
        )
    options = []
    for folder in allow:
        path = Path(folder).absolute()
        if not path.is_dir():
            raise SkillError(f"skill install: `--allow {folder}` names no folder: name one whose code the server may run")
        options += ["--allow", str(path)]
    if python:
        options += ["--python", interpreter(python)]
    return [*_program(), *options]


def missing() -> list[str]:
    """Return the requirements of the server that this Python does not have."""
    return [requirement for module, requirement in NEEDS.items() if find_spec(module) is None]


def _program() -> list[str]:
    for name in ("cudagraph-skill", "skill"):  # the first says in a list of processes whose it is
        script = Path(sys.executable).with_name(name)
        if is_ours(script):
            return [str(script), "serve"]
    if find_spec("cudagraph_skill_server") and "site-packages" in Path(__file__).parts:
        return [sys.executable, "-P", "-m", "cudagraph_skill", "serve"]  # -P: not the modules of the client's folder
    launcher = skill_root() / "server" / "serve.py"
    if not launcher.is_file():
        raise SkillError(
            f"this copy of the skill, {skill_root()}, has no server: install from a clone, or pip install the package", 3
        )
    return [sys.executable, str(launcher)]


def is_ours(script: Path) -> bool:
    """Return whether a script starts this package: procps has a program of the same name, which kills processes."""
    try:
        return b"cudagraph_skill" in script.read_bytes()[:4096]
    except OSError:
        return False


def lost(words: Sequence[object]) -> str:
    """Return why a command of a configuration cannot start the server any more; "" if it can."""
    paths = [Path(str(word)) for word in words if str(word).startswith("/")]
    if paths[:1] and not _is_program(paths[0]):
        return f"{paths[0]} is not there, or is no program"
    return next((f"{path} is not there" for path in paths[1:] if not path.exists()), "")


def _is_program(path: Path) -> bool:
    return path.is_file() and bool(path.stat().st_mode & 0o111)
