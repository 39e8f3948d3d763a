"""The nouns that the other modules exchange; standard library only, cheap to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Edit(NamedTuple):
    """A mechanical correction: the text from `first:column` up to `last:end` becomes `text`.

    Lines are 1-based, columns 0-based in UTF-8 bytes, as in `ast`.
    """

    first: int
    column: int
    last: int
    end: int
    text: str


class Finding(NamedTuple):
    """One line that breaks or poisons a capture; severity, reason and fix stand in references/hazards.md under `id`.

    `path` is what the user named (a file that the region calls into: relative to the current folder where it lies below it),
    `line` and `column` are 1-based, `message` says in one sentence what was seen, `via` is the way from the region to the line,
    outermost call first ("train.py:31 in step"). `certain` is False where a run would have to decide; `observed` is True where
    a run on the GPU has shown it.
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


class Region(NamedTuple):
    """Code that is captured: `how` is torch.cuda.graph, make_graphed_callables, reduce-overhead or named (by the user)."""

    path: str
    line: int
    name: str
    how: str


class Report(NamedTuple):
    """What reading the source found; `notes` say what was not read, and why."""

    findings: list[Finding]
    regions: list[Region]
    notes: list[str]


class Rung(NamedTuple):
    """One step of a capture on the GPU: `outcome` is ok, failed, differs or skipped, `seconds` its wall time."""

    name: str
    outcome: str
    said: str
    seconds: float


class Examination(NamedTuple):
    """What a run on the GPU showed of one callable.

    `verdict` is safe, capture_error, silent_wrong, error_in_eager (it fails without a graph), misuse or lacking; `said` is one
    sentence about what was seen. `findings` are the observed lines, then what the static check adds; `unconfirmed` is what that
    says and this run did not show. `graph` has nodes by kind and the host copies among them, `rounds` what was
    replayed and compared, `machine` the GPU and the versions; each is empty where the run did not come so far. `target` is the
    code that was captured, `output` the tail of what the user's code printed, `command` runs it without a graph, or is "".
    """

    verdict: str
    said: str
    findings: list[Finding]
    unconfirmed: list[Finding]
    rungs: list[Rung]
    graph: Mapping[str, Any]
    rounds: Mapping[str, Any]
    machine: Mapping[str, str]
    notes: list[str]
    target: Region
    output: str = ""
    command: str = ""
