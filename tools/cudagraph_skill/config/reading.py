"""Read what a user names: the file of a configuration, an architecture."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cudagraph_skill.config.input.document import LARGEST
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import quoted


def read_file(name: str) -> tuple[str, str]:
    """Return the text of a file, or of stdin for `-`, and the suffix that says what it is.

    Raises:
        SkillError: It cannot be read, or is no text.
    """
    try:
        with open(sys.stdin.fileno() if name == "-" else name, "rb", closefd=name != "-") as file:
            return file.read(4 * LARGEST + 1).decode("utf-8-sig"), Path(name).suffix
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise SkillError(f"skill config: {quoted(name)} is not UTF-8 text; give a script, a recipe, YAML or JSON") from None
        reason = getattr(error, "strerror", None) or str(error)
        raise SkillError(f"skill config: {quoted(name)} cannot be read: {reason}") from None


def arch_of(text: str) -> int:
    """Read an architecture: sm_90, sm_100a, 9.0 or 90.

    Raises:
        SkillError: It is none.
    """
    match = re.fullmatch(r"(?:(?:sm|compute)_?)?(?:(\d{1,2})\.(\d)|(\d{2,3}))[af]?", text.strip().lower())
    if not match:
        raise SkillError(
            f"skill config: `--arch {quoted(text)}` is no architecture: write sm_90 for Hopper, sm_100 for Blackwell"
        )
    return int(match[3] or f"{match[1]}{match[2]}")
