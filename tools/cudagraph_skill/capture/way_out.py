"""Find what references/libraries.md says about a line of a library: the section, and the way out of it.

A section names its lines in a comment, `<!-- library: transformers/masking_utils.py create_causal_mask | ... -->`: the end of
a path, and functions or `Class.method` in it (none: all of the file). In the section of a trainer, **Hook** says in which of
its hooks a graph goes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.check.findings import Library
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SECTION = re.compile(r"^### (?P<heading>.+)\n<!-- library: (?P<lines>.+) -->\n(?P<text>(?:(?!^#).*\n?)*)", re.MULTILINE)
_SAID = r"^- \*\*{}\*\*:? ?(.+(?:\n  .+)*)"
_ASIDE, _LINK = re.compile(r" \(\[[^\]]+\]\([^)\s]+\)\)"), re.compile(r"\[([^\]]+)\]\([^)\s]+\)")


class WayOut(NamedTuple):
    """What to do about a line of a library; `reference` is the section that says so. `hook` is "" if it is not of a trainer."""

    reference: str
    text: str
    hook: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]


@cache
def ways_out() -> list[WayOut]:
    """Return every section's way out, in the order of the file; [] if the file is not there."""
    file = skill_root() / "references" / "libraries.md"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return [_of_section(match) for match in _SECTION.finditer(text)]


def _of_section(match: re.Match[str]) -> WayOut:
    lines = [part.split() for part in match["lines"].split(" | ")]
    return WayOut(
        f"references/libraries.md#{match['heading'].strip()}",
        _said(match["text"], "Way out"),
        _said(match["text"], "Hook"),
        tuple((path, tuple(names)) for path, *names in lines),
    )


def _said(text: str, label: str) -> str:
    found = re.search(_SAID.format(label), text, re.MULTILINE)
    return " ".join(_LINK.sub(r"\1", _ASIDE.sub("", found[1])).split()) if found else ""


def way_out(library: Library) -> WayOut | None:
    """Return the way out of a library's line: of a section that names its method, else its function, else its whole file."""
    about = [(way, names) for way in ways_out() for path, names in way.lines if _ends_with(library.path, path)]
    short = library.function.rpartition(".")[2]
    wanted: tuple[Callable[[tuple[str, ...]], bool], ...] = (
        lambda names: library.function in names,
        lambda names: short in names or any(name.endswith(f".{short}") and "." not in library.function for name in names),
        lambda names: not names,
    )
    return next((way for fits in wanted for way, names in about if fits(names)), None)


def hook(lines: Iterable[tuple[str, str]]) -> WayOut | None:
    """Return what is said of the trainer that has the first known of these lines: path and function, outermost first."""
    known = (way_out(Library(path, 0, function, "", "")) for path, function in lines)
    return next((way for way in known if way is not None and way.hook), None)


def _ends_with(path: str, end: str) -> bool:
    return path == end or path.endswith(f"/{end}")
