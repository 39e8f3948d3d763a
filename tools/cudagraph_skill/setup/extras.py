"""The command that installs what one of our extras brings, for the Python that runs this."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.text import operand, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = "cudagraph-skill"


def installing(requirements: Sequence[str]) -> str:
    """Return the command, which names the requirements: the package itself may come from a clone, a wheel or an index."""
    words = " ".join(map(quoted, requirements))
    if "pipx" in Path(sys.prefix).parts:
        return f"pipx inject {PROJECT} {words}"
    python = operand(sys.executable)
    has_uv = find_spec("pip") is None and shutil.which("uv")  # which makes environments without pip
    return f"uv pip install --python {python} {words}" if has_uv else f"{python} -m pip install {words}"
