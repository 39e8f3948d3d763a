"""Load the table of hazards from the fields of references/hazards.md that the tool prints.

Read line by line with the standard library, so that a bare clone can check. A field is `- **Fix** text` under `### CG201 name`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from pathlib import Path

SEVERITIES = ("error", "warning", "info")
_HEADING = re.compile(r"### (CG\d{3}) ([a-z0-9]+(?:-[a-z0-9]+)*)\s*$")
_FIELD = re.compile(r"- \*\*(\w[\w ]*)\*\*:? ?(.*)$")
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")


class Hazard(NamedTuple):
    """Describe one way to break a capture. `severity` is error (fails), warning (wrong replay) or info (costs time)."""

    id: str
    name: str
    severity: str
    fix: str
    why: str


@cache
def table(path: Path | None = None) -> dict[str, Hazard]:
    """Return all hazards by id, in the order of the file.

    Raises:
        SkillError: the file is missing, or a section lacks a field.
    """
    file = path or skill_root() / "references" / "hazards.md"
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise SkillError(f"{file}: {error.strerror}; install cudagraph-skill again", 3) from None
    hazards: dict[str, Hazard] = {}
    for id_, name, fields, line in _sections(lines):
        if id_ in hazards:
            raise SkillError(f"{file}:{line}: {id_} has two sections", 3)
        hazards[id_] = _hazard(id_, name, fields, f"{file}:{line}")
    if not hazards:
        raise SkillError(f"{file}: there is no section `### CG… name` in it", 3)
    return hazards


def hazard(id_: str) -> Hazard:
    """Return one hazard. An unknown id gives an error without text, so that its finding is still reported."""
    return table().get(id_) or Hazard(id_, "unknown-hazard", "error", "", "")


def _sections(lines: list[str]) -> list[tuple[str, str, dict[str, str], int]]:
    """Return id, name, fields and line of each section; indented lines continue a field."""
    sections: list[tuple[str, str, dict[str, str], int]] = []
    fields: dict[str, str] = {}
    current = ""
    for number, line in enumerate(lines, 1):
        if heading := _HEADING.match(line):
            fields = {}
            sections.append((heading[1], heading[2], fields, number))
            current = ""
        elif line.startswith("#"):
            fields, current = {}, ""
        elif field := _FIELD.match(line):
            current = field[1].lower()
            fields[current] = field[2].strip()
        elif current and line.startswith("  ") and not line.lstrip().startswith("```"):
            fields[current] = f"{fields[current]} {line.strip()}".strip()
        else:
            current = ""
    return sections


def _hazard(id_: str, name: str, fields: dict[str, str], where: str) -> Hazard:
    missing = [field.capitalize() for field in ("severity", "fix", "why") if not fields.get(field)]
    if missing:
        raise SkillError(f"{where}: {id_} has no field **{missing[0]}**", 3)
    severity = re.match(r"\w*", fields["severity"].lower())
    if not severity or severity[0] not in SEVERITIES:
        raise SkillError(f"{where}: **Severity** of {id_} begins with none of {', '.join(SEVERITIES)}", 3)
    fix, why = (_LINK.sub(r"\1", fields[key]) for key in ("fix", "why"))
    return Hazard(id_, name, severity[0], fix, why)
