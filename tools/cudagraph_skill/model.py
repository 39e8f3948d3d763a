"""The nouns that the other modules exchange; standard library only, cheap to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Section(NamedTuple):
    """One heading of a Markdown file with the text below it, up to the next heading.

    `path` is what a reader opens (relative to the skill's root, or as the user named it), `anchor` the GitHub-style slug,
    `headings` the path of headings down to this one, `first` and `last` its 1-based lines, `text` the Markdown without
    comments and without the heading line. `asks`, `errors`, `tells` and `sources` come from the comment under the heading.
    """

    path: str
    anchor: str
    headings: tuple[str, ...]
    level: int
    first: int
    last: int
    text: str
    asks: tuple[str, ...]
    errors: tuple[str, ...]
    sources: tuple[str, ...]
    tells: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """The name under which `skill read` finds this section again."""
        return f"{self.path}#{self.anchor}"

    @property
    def trail(self) -> str:
        """The headings down to this one; the file's title is left out, since `path` says as much."""
        return " > ".join(self.headings[1:] or self.headings)

    @property
    def markdown(self) -> str:
        """The section as it stands in its file, comment left out."""
        return f"{'#' * self.level} {self.headings[-1]}\n\n{self.text}".rstrip()


class Hit(NamedTuple):
    """A section that answers a question: `passage` is the part of its text that fits the budget, `score` is unit-free."""

    section: Section
    score: float
    passage: str
    whole: bool


class Answer(NamedTuple):
    """What a search found: `hits` best first, or none and the `nearest` sections; `corrected` maps typed to used words."""

    hits: list[Hit]
    nearest: list[Section]
    corrected: dict[str, str]
    more: bool


class Diagnosis(NamedTuple):
    """One cause that may lie behind a log.

    `id` is the entry (or, where no message matched, the cause) to look up, `cause` the slug, `what` its meaning in one
    sentence, `seen` the lines of the log that speak for it, `here` the fix that the entry gives for this cause, `fix` all that
    the cause knows; `confidence` is one of high, medium, low, `see` are `path:line`. `target` is the code to give to the static
    check next, where that finds such a cause; else it is "", and `next` is a command, or "".
    """

    id: str
    cause: str
    what: str
    seen: tuple[str, ...]
    here: str
    fix: str
    confidence: str
    see: tuple[str, ...]
    next: str
    target: str = ""


class Verdict(NamedTuple):
    """What a log shows: `diagnoses` best first, empty where it shows no CUDA-graph problem.

    `decide` is what tells the first candidates apart, where the log leaves that open. `where` is the user's own frame nearest
    to the error, as `path:line in function`.
    """

    diagnoses: list[Diagnosis]
    decide: str
    where: str


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
