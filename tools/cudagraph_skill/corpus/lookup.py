"""Resolve a reference such as `references/streams.md#joins` or `streams.md:40` to the section it means."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from cudagraph_skill.corpus.load import (
    is_cause,
    is_constraint,
    is_entry,
    is_hazard,
    is_library,
    is_moved,
    moved_to,
    names,
    slug,
)
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Section
    from cudagraph_skill.text import Steps


_MAX_CHARACTERS = 1000
_BEFORE_NUMBER = re.compile(r"(?:cuda\b[\s:]*)?(?:error\b[\s:]*)?(?:code\b[\s:]*)?(?=\d)")
_NAMES = "an id such as CG201, a number such as 900 or an enum name"


class Missing(str):
    """A sentence that names what could not be found and what comes nearest."""

    __slots__ = ()


def find(sections: list[Section], ref: str, steps: Steps) -> list[Section] | Missing:
    """Return one section for PATH#HEADING, PATH:LINE or a heading alone; every section of a file for PATH alone.

    PATH may leave out `references/` and `.md`; HEADING may be the anchor or the heading's own words.
    """
    if len(ref) > _MAX_CHARACTERS:
        return Missing(f"the reference has {len(ref):,} characters; give one that `skill search` printed")
    path, heading, line = _parts(ref)
    in_file = [section for section in sections if _is_path(section.path, path)]
    if not in_file:
        return _by_heading(sections, ref, steps)
    if line > in_file[-1].last:
        shown = in_file[0].path
        return Missing(f"{shown} has {in_file[-1].last} lines, {line} is past its end; next: {steps.read(shown)}")
    if line:
        return [
            max(
                (section for section in in_file if section.first <= line), key=lambda section: section.first, default=in_file[0]
            )
        ]
    if not heading:
        return in_file
    return _one(in_file, heading) or Missing(
        f"{in_file[0].path} has no heading `{heading}`; {_near(in_file, heading)}next: {steps.read(in_file[0].path)}"
    )


def explain(sections: list[Section], name: str, steps: Steps) -> list[Section] | Missing:
    """Return what goes by a name: an id, CUDA's number of an error, its enum name. Most have one.

    A number or an enum name gives the entry that is named after it first, then others that mention it; a name that a cause
    and a hazard share gives both. The old id of an entry gives the entry that it was merged into.

    Raises:
        SkillError: the name is empty.
    """
    kinds = (is_entry, is_cause, is_hazard, is_constraint, is_library)
    known = [section for section in sections if any(is_kind(section) for is_kind in kinds)]
    wanted = _normal(name)
    if not wanted:
        raise SkillError(f"the name is empty: give {_NAMES}")
    wanted = next((moved_to(old) for old in sections if is_moved(old) and wanted == old.headings[-1]), wanted)
    if len(wanted) > _MAX_CHARACTERS:
        return Missing(f"the name has {len(wanted):,} characters; give {_NAMES}")
    named = [section for section in known if wanted in map(str.lower, names(section))]
    if named:
        return named
    coded = [section for section in known if wanted in (code.lower().lstrip("~^") for code in section.errors)]
    if coded:
        return sorted(coded, key=lambda section: len(section.errors))
    shown = name.strip()[:80]
    return Missing(f"there is no error, cause or hazard `{shown}`; {_nearest(wanted, known)}next: {steps.ask(shown)}")


def _normal(name: str) -> str:
    """Return the name as it is compared: "CUDA error: 901" is `901`, "CG208: a title" its slug."""
    wanted = _BEFORE_NUMBER.sub("", name.strip().strip("`").lower()).strip(": ")
    return slug(wanted) if re.match(r"cg\d{3}\W", wanted) else wanted


def _nearest(wanted: str, known: list[Section]) -> str:
    """Return "nearest: … ; " with up to three names like the one that is wanted; "" where none is."""
    called = {name.lower(): name for section in known for name in names(section)[:2]}
    called |= {
        code.lower(): code for section in known for code in section.errors if code.startswith("cuda") and " " not in code
    }
    near = [name for name in called if name.startswith(wanted)][:3] or difflib.get_close_matches(wanted, called, 3, 0.5)
    return f"nearest: {', '.join(called[name] for name in near)}; " if near else ""


def _parts(ref: str) -> tuple[str, str, int]:
    path, _, heading = ref.strip().partition("#")
    if match := re.fullmatch(r"(.+?):(\d{1,9})(?::\d{1,9})?:?", path):  # as compilers and grep write it, a column too
        return match[1], "", int(match[2])
    return path, heading.strip("# "), 0


def _is_path(path: str, asked: str) -> bool:
    wanted = asked.removeprefix("./")
    return (
        wanted in (path, path.removesuffix(".md"))
        or wanted.endswith(f"/{path}")
        or ("/" not in wanted and path.rpartition("/")[2] in (wanted, f"{wanted}.md"))
    )


def _one(sections: list[Section], heading: str) -> list[Section] | None:
    wanted = slug(heading)
    exact = [section for section in sections if section.anchor == heading or slug(section.headings[-1]) == wanted]
    begun = [section for section in sections if wanted and section.anchor.startswith(wanted)]
    return exact[:1] or (begun if len(begun) == 1 else None)


def _by_heading(sections: list[Section], ref: str, steps: Steps) -> list[Section] | Missing:
    return _one(sections, ref) or _no_file(sections, ref, steps)


def _no_file(sections: list[Section], ref: str, steps: Steps) -> Missing:
    """Return what to say of a name that no file and no heading has: the files and headings that come near it."""
    path, heading, _ = _parts(ref)
    files = {section.path: section for section in sections}
    stems = {_stem(known): known for known in files}
    named = [stems[stem] for stem in difflib.get_close_matches(_stem(path), stems, 3, 0.7)]
    if heading and named:
        in_file = [section for section in sections if section.path == named[0]]
        found = _one(in_file, heading) or _alike(in_file, heading)
        refs = [section.ref for section in found] or named
    elif path.endswith(("/", ".")):
        refs = []  # a folder
    else:
        refs = named or [section.ref for section in _alike(sections, heading or ref)]
    if refs:
        return Missing(f"no file or heading `{ref}`; did you mean {' or '.join(refs)}? next: {steps.read(refs[0])}")
    is_path = not ref.strip() or "/" in path or path.endswith((".", ".md"))
    return Missing(
        f"no file or heading `{ref}`; files: {', '.join(files)}; next: {steps.read('SKILL.md') if is_path else steps.ask(ref)}"
    )


def _stem(path: str) -> str:
    """Return the name of a file as it is compared: without folder, end and case."""
    return path.rpartition("/")[2].partition(":")[0].lower().removesuffix(".md")


def _near(sections: list[Section], heading: str) -> str:
    near = _alike(sections, heading)
    return f"nearest: {', '.join(f'#{section.anchor}' for section in near)}; " if near else ""


def _alike(sections: list[Section], heading: str) -> list[Section]:
    """Return up to three sections whose anchor has the words of a heading, or is like it, or begins like it."""
    wanted = slug(heading)
    if not wanted:
        return []
    within = [section for section in sections if wanted in section.anchor]
    if within:
        return within[:3]
    anchors = {section.anchor: section for section in reversed(sections)}
    begins = {anchor[: len(wanted)]: section for anchor, section in anchors.items()}
    whole = difflib.get_close_matches(wanted, anchors, 3, 0.6)
    return [anchors[anchor] for anchor in whole] or [
        begins[part] for part in difflib.get_close_matches(wanted, begins, 3, 0.75)
    ]
