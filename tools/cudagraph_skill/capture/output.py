"""Write what a capture on the GPU showed, as text, JSON, GitHub annotations or SARIF."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check import output
from cudagraph_skill.check.hazards import Hazard, hazard
from cudagraph_skill.check.output import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture.result import CaptureResult, Step
    from cudagraph_skill.check.findings import Finding
    from cudagraph_skill.check.output import Reader
    from cudagraph_skill.text import Steps

MEASURE = "references/profiling.md#fair-ab-eager-against-graph"  # what to do with a callable that is safe
BISECT = "references/correctness.md#find-which-operation-differs-bisect-and-probe"
_EXIT = {"safe": 0, "capture_error": 1, "silent_wrong": 1, "error_in_eager": 2, "misuse": 2, "lacking": 3}
_SEVERITY = {"capture_error": "error", "silent_wrong": "warning"}
_WORDS = {"capture_error": "capture error", "silent_wrong": "silently wrong", "error_in_eager": "error without a graph"}
_TAIL = 5  # lines of the user's own output that are shown


def exit_code(found: Sequence[CaptureResult]) -> int:
    """Return the worst exit code: 0 safe, 1 fails or goes wrong, 2 misuse or fails in eager, 3 the machine lacks something."""
    return max((_EXIT.get(each.verdict, 3) for each in found), default=2)


def written(found: Sequence[CaptureResult], form: str, reader: Reader) -> str:
    """Write results in one of findings.FORMS."""
    if form == "json":
        records = [data(each, reader) for each in found]
        return json.dumps(records[0] if len(records) == 1 else {"examinations": records}, ensure_ascii=False)
    if form == "sarif":
        return json.dumps(_sarif(found, reader), ensure_ascii=False, indent=1)
    return ("\n" if form in ("concise", "github") else "\n\n").join(text(each, form, reader) for each in found)


def text(each: CaptureResult, form: str, reader: Reader) -> str:
    """Write one result for people: full, concise, or as annotations of GitHub."""
    own = _reader(each, reader)
    end = f"next: {next_step(each, reader.steps)}"
    if form == "github":
        return "\n".join([*(output.annotation(one, own) for one in each.findings), summary(each), end])
    if form == "concise":
        return "\n".join([*(output.head(one, own) for one in _marked(each)), summary(each), end])
    first = {one.id: one for one in reversed(_marked(each))}
    parts = [output.full(one, first[one.id] is one, own) for one in _marked(each)]
    return "\n\n".join([summary(each), *parts, "\n".join([*_steps(each.steps), *_facts(each), *_output(each), end])])


def summary(each: CaptureResult) -> str:
    """Return the verdict as one sentence."""
    parts = (_WORDS.get(each.verdict, each.verdict), each.target.name or each.target.path, each.said)
    return one_line(": ".join(part for part in parts if part))


def next_step(each: CaptureResult, steps: Steps) -> str:
    """Return one command to paste."""
    if each.verdict in _SEVERITY and each.findings:
        first = each.findings[0]
        return steps.read(BISECT) if _is_unexplained(each, first) else steps.explain(first.id)
    if each.verdict == "safe":
        return steps.read(MEASURE)
    if each.verdict == "silent_wrong":
        return steps.read(BISECT)
    if each.verdict == "error_in_eager" and each.command:
        return each.command
    return steps.ask(each.said) if each.verdict == "capture_error" else steps.read("SKILL.md#requirements")


def data(each: CaptureResult, reader: Reader) -> dict[str, Any]:
    """Return the result as JSON data. `ladder` has the steps of the run, `unconfirmed` what only the source shows."""
    own = _reader(each, reader)
    static = reader._replace(known=lambda one: hazard(one.id))
    return {
        "verdict": each.verdict,
        "summary": summary(each),
        "target": {"path": each.target.path, "line": each.target.line, "name": each.target.name},
        "findings": [{**output.record(one, own), "observed": one.observed} for one in each.findings],
        "unconfirmed": [{**output.record(one, static), "observed": False} for one in each.unconfirmed],
        "ladder": [step._asdict() for step in each.steps],
        "graph": dict(each.graph),
        "rounds": dict(each.rounds),
        "machine": dict(each.machine),
        "notes": list(each.notes),
        "next": next_step(each, reader.steps),
    }


def _reader(each: CaptureResult, reader: Reader) -> Reader:
    return reader._replace(known=lambda one: _known(each, one))


def _known(each: CaptureResult, one: Finding) -> Hazard:
    """Return the hazard of a finding with the severity that was observed; without a cause, how to go on replaces the reason."""
    known = hazard(one.id)
    seen = _SEVERITY.get(each.verdict, known.severity) if one.observed else known.severity
    if _is_unexplained(each, one):
        return known._replace(severity=seen, why="", fix=f"Compare operation by operation, from the first: {BISECT}")
    return known._replace(severity=seen)


def _is_unexplained(each: CaptureResult, one: Finding) -> bool:
    """Return whether a replay was wrong at a line without a known cause; harmless hazards are not causes."""
    return one.observed and each.verdict == "silent_wrong" and hazard(one.id).severity == "info"


def _marked(each: CaptureResult) -> list[Finding]:
    """Return the findings; those from the source alone are marked as such."""
    own = f" (read in the source, not {'reached' if each.verdict == 'capture_error' else 'singled out'} by this run)"
    return [one if one.observed else one._replace(message=one.message + own, certain=True) for one in each.findings]


def _steps(steps: Sequence[Step]) -> list[str]:
    """Return one line for each step, in columns."""
    wide, outcome = (
        max(map(len, column), default=0) for column in ([each.name for each in steps], [each.outcome for each in steps])
    )
    return [
        one_line(f"  {each.name:{wide}}  {each.outcome:{outcome}}  {each.seconds:6.2f} s  {each.said}".rstrip())
        for each in steps
    ]


def _facts(each: CaptureResult) -> list[str]:
    """Return what else the run showed, one fact a line."""
    lines: list[str] = []
    if each.rounds.get("wrong"):
        lines.append(f"replays: {_replays(each)}")
    if each.unconfirmed:
        did = "did not confirm" if each.verdict == "safe" else "did not get to"
        places = ", ".join(dict.fromkeys(f"{one.path}:{one.line} {one.id}" for one in each.unconfirmed))
        lines.append(f"unconfirmed: the source suggests {places}; this run {did} it")
    lines += [f"note: {note}" for note in each.notes]
    if each.machine:
        lines.append(f"machine: {_machine(each)}")
    return [one_line(line) for line in lines]


def _replays(each: CaptureResult) -> str:
    wrong, replayed = each.rounds.get("wrong") or [], each.rounds.get("replayed")
    numbers = ", ".join(map(str, wrong[:6])) + ", …" * (len(wrong) > 6)
    return f"{replayed}, wrong in {numbers}; off by {each.rounds.get('worst'):.2g}, allowed {each.rounds.get('tolerance'):.2g}"


def _machine(each: CaptureResult) -> str:
    names = {"gpu": "", "driver": "driver ", "torch": "torch ", "cuda": "CUDA ", "python": "Python "}
    return ", ".join(f"{name}{each.machine[key]}" for key, name in names.items() if each.machine.get(key))


def _output(each: CaptureResult) -> list[str]:
    """Return the last lines that the user's code printed, if the run went wrong."""
    if each.verdict == "safe" or not each.output.strip():
        return []
    return [
        "output of your code, its last lines:",
        *(f"  | {one_line(line)}" for line in each.output.rstrip().split("\n")[-_TAIL:]),
    ]


def _sarif(found: Sequence[CaptureResult], reader: Reader) -> dict[str, Any]:
    """Write all results as one SARIF run; without a line, the sentence becomes a note."""
    by_finding = {id(one): each for each in found for one in each.findings}
    own = reader._replace(known=lambda one: _known(by_finding[id(one)], one))
    notes = [note for each in found for note in (*([] if each.verdict == "safe" else [summary(each)]), *each.notes)]
    done = all(each.verdict in ("safe", "capture_error", "silent_wrong") for each in found)
    return output.sarif([one for each in found for one in each.findings], notes, done, own)
