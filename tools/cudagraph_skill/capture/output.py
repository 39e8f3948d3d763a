"""Write what a capture on the GPU showed, as text, JSON, GitHub annotations or SARIF."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.way_out import way_out
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
REPEAT = "references/correctness.md#skill-check-with---run-iterators-and-code-that-does-not-repeat-itself"
BISECT = "references/correctness.md#find-which-operation-differs-bisect-and-probe"
_EXIT = {"safe": 0, "not_repeatable": 4, "capture_error": 1, "silent_wrong": 1, "error_in_eager": 2, "misuse": 2, "lacking": 3}
_WORST = [0, 4, 1, 2, 3]  # from the best to the worst
_SEVERITY = {"capture_error": "error", "silent_wrong": "warning"}
_WORDS = {
    "capture_error": "capture error",
    "silent_wrong": "silently wrong",
    "not_repeatable": "not repeatable",
    "error_in_eager": "error without a graph",
}
_TAIL = 5  # lines of the user's own output that are shown


def exit_code(results: Sequence[CaptureResult]) -> int:
    """Return the worst exit code.

    0 safe, 1 fails or goes wrong, 2 misuse or fails in eager, 3 the machine lacks something, 4 eager does not repeat itself.
    """
    return max((_EXIT.get(result.verdict, 3) for result in results), key=_WORST.index, default=2)


def written(results: Sequence[CaptureResult], form: str, reader: Reader) -> str:
    """Write results in one of findings.FORMS."""
    if form == "json":
        records = [data(result, reader) for result in results]
        return json.dumps(records[0] if len(records) == 1 else {"examinations": records}, ensure_ascii=False)
    if form == "sarif":
        return json.dumps(_sarif(results, reader), ensure_ascii=False, indent=1)
    return ("\n" if form in ("concise", "github") else "\n\n").join(text(result, form, reader) for result in results)


def text(result: CaptureResult, form: str, reader: Reader) -> str:
    """Write one result for people: full, concise, or as annotations of GitHub."""
    own = _reader(result, reader)
    end = f"next: {next_step(result, reader.steps)}"
    if form == "github":
        return "\n".join([*(output.annotation(finding, own) for finding in result.findings), summary(result), end])
    if form == "concise":
        return "\n".join([*(output.head(finding, own) for finding in _marked(result)), summary(result), end])
    first = {finding.id: finding for finding in reversed(_marked(result))}
    parts = [_full(finding, first[finding.id] is finding, own) for finding in _marked(result)]
    return "\n\n".join([summary(result), *parts, "\n".join([*_steps(result.steps), *_facts(result), *_output(result), end])])


def _full(finding: Finding, first: bool, reader: Reader) -> str:
    """Return one finding; below a library's line, the way out of it that the references know."""
    way = way_out(finding.library) if finding.library else None
    told = [f"  way out: {one_line(way.text)} ({reader.steps.read(way.reference)})"] if way else []
    return "\n".join([output.full(finding, first, reader), *told])


def summary(result: CaptureResult) -> str:
    """Return the verdict as one sentence."""
    parts = (_WORDS.get(result.verdict, result.verdict), result.target.name or result.target.path, result.said)
    return one_line(": ".join(part for part in parts if part))


def next_step(result: CaptureResult, steps: Steps) -> str:
    """Return one command to paste."""
    if result.verdict in _SEVERITY and result.findings:
        first = result.findings[0]
        return steps.read(BISECT) if _is_unexplained(result, first) else steps.explain(first.id)
    if result.verdict == "safe":
        return steps.read(MEASURE)
    if result.verdict in ("silent_wrong", "not_repeatable"):
        return steps.read(BISECT if result.verdict == "silent_wrong" else REPEAT)
    if result.verdict == "error_in_eager" and result.command:
        return result.command
    if result.reference:
        return steps.read(result.reference)
    return steps.ask(result.said) if result.verdict == "capture_error" else steps.read("SKILL.md#requirements")


def data(result: CaptureResult, reader: Reader) -> dict[str, Any]:
    """Return the result as JSON data. `ladder` has the steps of the run, `unconfirmed` what only the source shows."""
    own = _reader(result, reader)
    static = reader._replace(known=lambda finding: hazard(finding.id))
    return {
        "verdict": result.verdict,
        "summary": summary(result),
        "target": {"path": result.target.path, "line": result.target.line, "name": result.target.name},
        "findings": [
            {**output.record(finding, own), **_way_out(finding), "observed": finding.observed} for finding in result.findings
        ],
        "unconfirmed": [{**output.record(finding, static), "observed": False} for finding in result.unconfirmed],
        "ladder": [step._asdict() for step in result.steps],
        "graph": dict(result.graph),
        "rounds": dict(result.rounds),
        "machine": dict(result.machine),
        "notes": list(result.notes),
        "signatures": list(result.signatures),
        "ranks": list(result.ranks),
        "next": next_step(result, reader.steps),
    }


def _way_out(finding: Finding) -> dict[str, Any]:
    way = way_out(finding.library) if finding.library else None
    return {"way_out": {"reference": way.reference, "text": way.text}} if way else {}


def _reader(result: CaptureResult, reader: Reader) -> Reader:
    return reader._replace(known=lambda finding: _known(result, finding))


def _known(result: CaptureResult, finding: Finding) -> Hazard:
    """Return the hazard of a finding with the severity that was observed; without a cause, how to go on replaces the reason."""
    known = hazard(finding.id)
    seen = _SEVERITY.get(result.verdict, known.severity) if finding.observed else known.severity
    if _is_unexplained(result, finding):
        return known._replace(severity=seen, why="", fix=f"Compare operation by operation, from the first: {BISECT}")
    return known._replace(severity=seen)


def _is_unexplained(result: CaptureResult, finding: Finding) -> bool:
    """Return whether a replay was wrong at a line without a known cause; harmless hazards are not causes."""
    return finding.observed and result.verdict == "silent_wrong" and hazard(finding.id).severity == "info"


def _marked(result: CaptureResult) -> list[Finding]:
    """Return the findings; those from the source alone are marked as such."""
    own = f" (read in the source, not {'reached' if result.verdict == 'capture_error' else 'singled out'} by this run)"
    return [
        finding if finding.observed else finding._replace(message=finding.message + own, certain=True)
        for finding in result.findings
    ]


def _steps(steps: Sequence[Step]) -> list[str]:
    """Return one line for each step, in columns."""
    wide, outcome = (
        max(map(len, column), default=0) for column in ([step.name for step in steps], [step.outcome for step in steps])
    )
    return [
        one_line(f"  {step.name:{wide}}  {step.outcome:{outcome}}  {step.seconds:6.2f} s  {step.said}".rstrip())
        for step in steps
    ]


def _facts(result: CaptureResult) -> list[str]:
    """Return what else the run showed, one fact a line."""
    lines: list[str] = []
    if result.rounds.get("wrong"):
        lines.append(f"replays: {_replays(result)}")
    if result.unconfirmed:
        did = "did not confirm" if result.verdict == "safe" else "did not get to"
        places = ", ".join(dict.fromkeys(f"{finding.path}:{finding.line} {finding.id}" for finding in result.unconfirmed))
        lines.append(f"unconfirmed: the source suggests {places}; this run {did} it")
    lines += [f"note: {note}" for note in result.notes]
    if result.machine:
        lines.append(f"machine: {_machine(result)}")
    return [one_line(line) for line in lines]


def _replays(result: CaptureResult) -> str:
    wrong, replayed = result.rounds.get("wrong") or [], result.rounds.get("replayed")
    numbers = ", ".join(map(str, wrong[:6])) + ", …" * (len(wrong) > 6)
    return (
        f"{replayed}, wrong in {numbers}; off by {result.rounds.get('worst'):.2g}, allowed {result.rounds.get('tolerance'):.2g}"
    )


def _machine(result: CaptureResult) -> str:
    names = {"gpu": "", "driver": "driver ", "torch": "torch ", "cuda": "CUDA ", "python": "Python "}
    return ", ".join(f"{name}{result.machine[key]}" for key, name in names.items() if result.machine.get(key))


def _output(result: CaptureResult) -> list[str]:
    """Return the last lines that the user's code printed, if the run went wrong."""
    if result.verdict == "safe" or not result.output.strip():
        return []
    return [
        "output of your code, its last lines:",
        *(f"  | {one_line(line)}" for line in result.output.rstrip().split("\n")[-_TAIL:]),
    ]


def _sarif(results: Sequence[CaptureResult], reader: Reader) -> dict[str, Any]:
    """Write all results as one SARIF run; without a line, the sentence becomes a note."""
    by_finding = {id(finding): result for result in results for finding in result.findings}
    own = reader._replace(known=lambda finding: _known(by_finding[id(finding)], finding))
    notes = [note for result in results for note in (*([] if result.verdict == "safe" else [summary(result)]), *result.notes)]
    done = all(result.verdict in ("safe", "capture_error", "silent_wrong", "not_repeatable") for result in results)
    return output.sarif([finding for result in results for finding in result.findings], notes, done, own)
