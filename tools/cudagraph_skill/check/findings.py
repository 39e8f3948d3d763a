"""What a check finds: lines, corrections, captured regions."""

from __future__ import annotations

from typing import NamedTuple

# Phrases of notes on what torch.compile is to graph: that it leaves something out, and that the code was not read
LEFT_OUT = "torch.compile leaves"
UNREAD_BODY = "of what torch.compile graphs here, only what is kept of its outputs was looked at"


class Edit(NamedTuple):
    """A mechanical correction: the text from `first:column` up to `last:end` becomes `text`.

    Lines are 1-based, columns 0-based in UTF-8 bytes, as in `ast`.
    """

    first: int
    column: int
    last: int
    end: int
    text: str


class Library(NamedTuple):
    """The deepest line of an installed package below a user's line: `package` and `version` are "" where they are not known."""

    path: str
    line: int
    function: str
    package: str
    version: str


class Finding(NamedTuple):
    """One line that breaks or poisons a capture; severity, reason and fix stand in references/hazards.md under `id`.

    `path` is what the user named (a file that the region calls into: absolute or relative as that is),
    `line` and `column` are 1-based, `message` says in one sentence what was seen, `via` is the way from the region to the line,
    outermost call first ("train.py:31 in step"). `certain` is False where a run would have to decide; `observed` is True where
    a run on the GPU has shown it, `because` says what the finding rests on, where that was asked for. `part_of` is the place
    ("train.py:12") of the finding of the same mistake where it is corrected; "" for most. `library` is what a run saw below the line.
    """

    path: str
    line: int
    column: int
    id: str
    message: str
    via: tuple[str, ...] = ()
    edit: Edit | None = None
    certain: bool = True
    observed: bool = False
    because: tuple[str, ...] = ()
    part_of: str = ""
    library: Library | None = None


class Region(NamedTuple):
    """Code that is captured: `how` is torch.cuda.graph, make_graphed_callables, reduce-overhead or named (by the user)."""

    path: str
    line: int
    name: str
    how: str


class Unread(NamedTuple):
    """Captured code that was not read, or not in full: where it begins, what it is, and the reason as a clause."""

    path: str
    line: int
    name: str
    reason: str


class Report(NamedTuple):
    """What reading the source found: `unread` says which captured code was not read, and why.

    `notes` say the same of files, and what torch.compile does not graph.
    """

    findings: list[Finding]
    regions: list[Region]
    notes: list[str]
    unread: list[Unread]
