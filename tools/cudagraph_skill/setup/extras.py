"""The command that installs what one of our extras brings, for the Python that runs this."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.paths import skill_root
from cudagraph_skill.text import operand, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = "cudagraph-skill"


def installing(extra: str, requirements: Sequence[str]) -> str:
    """Return the command: of the installed package, of the clone, or the requirements where there is neither."""
    if "pipx" in Path(sys.prefix).parts:
        return f"pipx inject {PROJECT} {' '.join(map(quoted, requirements))}"
    python = operand(sys.executable)
    has_uv = find_spec("pip") is None and shutil.which("uv")  # which makes environments without pip
    pip = f"uv pip install --python {python}" if has_uv else f"{python} -m pip install"
    if _is_installed():
        return f"{pip} {quoted(f'{PROJECT}[{extra}]')}"
    if (skill_root() / "pyproject.toml").is_file():
        return f"{pip} {quoted(f'{skill_root()}[{extra}]')}"
    return f"{pip} {' '.join(map(quoted, requirements))}"


def _is_installed() -> bool:
    try:
        return bool(version(PROJECT))
    except PackageNotFoundError:
        return False
