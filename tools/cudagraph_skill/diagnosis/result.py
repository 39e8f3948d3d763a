"""What `skill errors` finds in a log."""

from __future__ import annotations

from typing import NamedTuple


class Diagnosis(NamedTuple):
    """One cause that may lie behind a log.

    `id` is the entry (or, where no message matched, the cause) to look up, `cause` the slug, `what` its meaning in one
    sentence, `seen` the lines of the log that speak for it, `here` the fix that the entry gives for this cause, `fix` all that
    the cause knows; `confidence` is one of high, medium, low, `see` are `path:line`. `target` is the code to give to the static
    check next, where that finds such a cause; else it is "", and `next` is a command, or "". `release` (`PACKAGE==VERSION`) is
    the release to check the settings for, where the error is one of the configuration.
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
    release: str = ""


class Verdict(NamedTuple):
    """What a log shows: `diagnoses` best first, empty where it shows no CUDA-graph problem.

    `decide` is what tells the first candidates apart, where the log leaves that open. `where` is the user's own frame nearest
    to the error, as `path:line in function`.
    """

    diagnoses: list[Diagnosis]
    decide: str
    where: str
