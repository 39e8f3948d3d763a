"""What `skill check` found, as text for people and assistants, JSON, GitHub annotations and SARIF."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill import __version__
from cudagraph_skill.check.hazards import SEVERITIES, Hazard, hazard
from cudagraph_skill.check.input.source import UNREAD, shown
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cudagraph_skill.check.findings import Finding, Report
    from cudagraph_skill.text import Steps

    Lines = Callable[[str], tuple[list[str], list[tuple[int, int]]]]  # of a path: its lines, and the cells they stand in

FORMS = ("full", "concise", "json", "github", "sarif")
COMPARE = "references/correctness.md#procedure"  # how to compare replay with eager
_WIDEST = 140  # characters of a source line that are shown
_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "info": "\x1b[1;36m"}
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_ANNOTATIONS = {"error": "error", "warning": "warning", "info": "notice"}
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_UNCERTAIN = " (as far as the source shows; a run decides)"


def verdict(report: Report) -> str:
    """`fails` at capture, goes silently `wrong`, `clean`, `nothing` is captured here, or `unread`."""
    worst = min((SEVERITIES.index(hazard(each.id).severity) for each in report.findings), default=2)
    if worst < 2:
        return "fails" if worst == 0 else "wrong"
    if report.regions or report.findings:
        return "clean"
    return "unread" if any(UNREAD in note for note in report.notes) else "nothing"


def exit_code(report: Report, named: Collection[str] = ()) -> int:
    """0 nothing to change, 1 something to change, 2 a file that the user `named` was not read."""
    kind = verdict(report)
    if kind in ("fails", "wrong"):
        return 1
    unread = [note for note in report.notes if UNREAD in note]
    return 2 if kind == "unread" or any(note.partition(":")[0] in named for note in unread) else 0


def _known(each: Finding) -> Hazard:
    return hazard(each.id)


class Reader(NamedTuple):
    """Who reads a report: how they go on, where the lines of the source come from, whether they see colours.

    `known` says what stands under a finding: the hazard of its id.
    """

    steps: Steps
    lines: Lines
    colour: bool = False
    known: Callable[[Finding], Hazard] = _known


def written(report: Report, form: str, reader: Reader, diff: str = "") -> str:
    """A report in one of FORMS; JSON has the `diff` of what was, or would be, corrected."""
    steps, lines = reader.steps, reader.lines
    if form == "json":
        return json.dumps({**data(report, reader), **({"diff": diff} if diff else {})}, ensure_ascii=False)
    if form == "sarif":
        return json.dumps(
            sarif(ordered(report), report.notes, verdict(report) != "unread", reader), ensure_ascii=False, indent=1
        )
    found = ordered(report)
    end = [one_line(f"{summary(report, lines)}"), f"next: {next_step(report, steps)}"]
    if form == "github":
        return "\n".join([*(annotation(each, reader) for each in found), *end])
    if form == "concise":
        return "\n".join([*(head(each, reader) for each in found), *end])
    first = {each.id: each for each in reversed(found)}
    parts = [full(each, first[each.id] is each, reader) for each in found]
    return "\n\n".join([*parts, "\n".join(end)])


def ordered(report: Report) -> list[Finding]:
    """Findings file by file, as the files were named, from top to bottom; each once."""
    order: dict[str, int] = {}
    for path in (*(region.path for region in report.regions), *(each.path for each in report.findings)):
        order.setdefault(path, len(order))
    unique = {(each.path, each.line, each.column, each.id): each for each in reversed(report.findings)}
    return sorted(unique.values(), key=lambda each: (order[each.path], each.line, each.column, each.id))


def summary(report: Report, lines: Lines) -> str:
    """One sentence: what was found, and what to change first."""
    kind, subject, many = verdict(report), _subject(report), len(report.regions) > 1
    fails, wrong, costs = (_places(report, severity) for severity in SEVERITIES)
    if kind == "unread":
        return f"nothing was checked: {_count(sum(UNREAD in note for note in report.notes), 'file')} {UNREAD}"
    if kind == "nothing":
        return "no captured region found: name the captured function as FILE:FUNCTION, or check every forward with --all"
    if kind == "clean":
        aside = f"; {_count(costs, 'line')} only cost{'s' * (costs == 1)} time or {'are' if costs > 1 else 'is'} worth knowing"
        return f"{subject}: nothing found that breaks a capture{aside * bool(costs)}; now compare replay with eager"
    worst = next(each for each in ordered(report) if hazard(each.id).severity == ("error" if kind == "fails" else "warning"))
    first = f"; first {_place(worst, lines)}{_quoted(worst.message)}: {_lowered(hazard(worst.id).fix)}"
    if kind == "wrong":
        replay = "their replay goes" if many else "its replay goes"
        return f"{subject} can be captured, but {replay} silently wrong at {_count(wrong, 'line')}{first}"
    also = f", {wrong} {'go' if wrong > 1 else 'goes'} silently wrong" if wrong else ""
    stand = "they stand" if many else "it stands"
    return f"{subject} cannot be graphed as {stand}: {_count(fails, 'line')} fail{'s' * (fails == 1)} at capture{also}{first}"


def next_step(report: Report, steps: Steps) -> str:
    """One command to paste."""
    kind = verdict(report)
    if kind in ("fails", "wrong"):
        severity = "error" if kind == "fails" else "warning"
        return steps.explain(next(each.id for each in ordered(report) if hazard(each.id).severity == severity))
    if kind == "clean":
        return steps.read(COMPARE)
    if kind == "unread":
        return "correct the syntax, then check again"
    return steps.check("FILE:FUNCTION")


def data(report: Report, reader: Reader) -> dict[str, Any]:
    """The same for programs. In a notebook `line` counts in its code cells joined, and `cell` says where that is."""
    return {
        "verdict": verdict(report),
        "summary": summary(report, reader.lines),
        "findings": [record(each, reader) for each in ordered(report)],
        "regions": [{"path": each.path, "line": each.line, "name": each.name, "how": each.how} for each in report.regions],
        "notes": list(report.notes),
        "next": next_step(report, reader.steps),
    }


def record(each: Finding, reader: Reader) -> dict[str, Any]:
    """One finding for programs."""
    known, lines = reader.known(each), reader.lines
    found: dict[str, Any] = {
        "path": each.path,
        "line": each.line,
        "column": each.column,
        "id": each.id,
        "name": known.name,
        "severity": known.severity,
        "message": each.message,
        "fix": known.fix,
        "via": list(each.via),
    }
    place = shown(lines(each.path)[1], each.line) if each.path.endswith(".ipynb") else ""
    if place.startswith("cell"):
        found["cell"] = place
    if not each.certain:
        found["certain"] = False
    return found


def _subject(report: Report) -> str:
    names = dict.fromkeys(f"{each.path}:{each.line}" if each.name.startswith("<") else each.name for each in report.regions)
    if len(report.regions) == 1:
        return next(iter(names))
    if report.regions:
        return f"{len(report.regions)} captured regions ({', '.join(list(names)[:3])}{', …' if len(names) > 3 else ''})"
    return report.findings[0].path if report.findings else ""


def _places(report: Report, severity: str) -> int:
    return len({(each.path, each.line) for each in report.findings if hazard(each.id).severity == severity})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _quoted(message: str) -> str:
    """The expression that a message names."""
    match = re.search(r"`[^`]+`", message)
    return f" ({match[0]})" if match else ""


def _lowered(sentence: str) -> str:
    """A sentence to stand after a colon."""
    return sentence if sentence[1:2].isupper() or not sentence[:1].isalpha() else sentence[0].lower() + sentence[1:]


def _place(each: Finding, lines: Lines) -> str:
    return f"{each.path}:{shown(lines(each.path)[1] if each.path.endswith('.ipynb') else [], each.line)}"


def one_line(text: str) -> str:
    """One line that cannot steer a terminal; expressions of the user's code stand in it."""
    return printable(" ".join(text.split("\n")))


def head(each: Finding, reader: Reader) -> str:
    """One finding in one line, in the form of compilers."""
    _, lines, colour, named = reader
    known = named(each)
    place, said = one_line(f"{_place(each, lines)}:{each.column}:"), one_line(each.message + _UNCERTAIN * (not each.certain))
    severity = f"{_COLOURS[known.severity]}{known.severity}{_PLAIN}" if colour else known.severity
    return f"{_BOLD}{place}{_PLAIN} {each.id} {severity} {said}" if colour else f"{place} {each.id} {severity} {said}"


def full(each: Finding, first: bool, reader: Reader) -> str:
    """One finding with its source line; what is the same for all of its id stands at the first of them only."""
    known = reader.known(each)
    parts = [head(each, reader), *_excerpt(each, reader.lines)]
    if first and known.why:
        parts.append(f"  why: {one_line(known.why)}")
    parts.append(f"  fix: {one_line(known.fix)}")
    if each.via:
        parts.append(f"  called from: {one_line(' > '.join(each.via))}")
    if first:
        parts.append(f"  more: {reader.steps.explain(each.id)}")
    return "\n".join(parts)


def _excerpt(each: Finding, lines: Lines) -> list[str]:
    """The line with a caret under the column; of a long one the part around it."""
    source, cells = lines(each.path)
    if not 0 < each.line <= len(source):
        return []
    line, column = source[each.line - 1].replace("\t", " "), max(each.column, 1) - 1
    start = max(0, min(column - _WIDEST // 2, len(line) - _WIDEST)) if len(line) > _WIDEST else 0
    shown_line = printable(line[start : start + _WIDEST])
    number = str(cells[each.line - 1][1] if each.line <= len(cells) else each.line)
    before = _width(shown_line[: column - start])
    return [f"  {number} | {shown_line}", f"  {' ' * len(number)} | {' ' * before}^"]


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - rare

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def annotation(each: Finding, reader: Reader) -> str:
    """A workflow command of GitHub Actions."""
    known, lines = reader.known(each), reader.lines
    cell = shown(lines(each.path)[1], each.line) if each.path.endswith(".ipynb") else ""
    said = f"{each.message}{_UNCERTAIN * (not each.certain)}. Fix: {known.fix}"
    where = {"file": each.path, "line": str(each.line), "col": str(each.column), "title": f"{each.id} {known.name}"}
    if cell.startswith("cell"):  # lines of the file are JSON
        where, said = {"file": each.path, "title": where["title"]}, f"{cell}: {said}"
    properties = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in where.items())
    return f"::{_ANNOTATIONS[known.severity]} {properties}::{_escaped(said)}"


def _escaped(text: str, also: str = "") -> str:
    return printable("".join(f"%{ord(char):02X}" if char in f"%\r\n{also}" else char for char in text))


def sarif(found: list[Finding], notes: list[str], done: bool, reader: Reader) -> dict[str, Any]:
    """SARIF 2.1.0, one run; `done` is False where nothing could be examined."""
    rules = list(dict.fromkeys(each.id for each in found))
    known = {each.id: reader.known(each) for each in found}
    messages = [{"level": "warning", "message": {"text": note}} for note in notes]
    run = {
        "tool": {"driver": {"name": "cudagraph-skill", "version": __version__, "rules": [_rule(known[id_]) for id_ in rules]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": done, "toolExecutionNotifications": messages}],
        "results": [_result(each, rules.index(each.id), reader) for each in found],
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _rule(known: Hazard) -> dict[str, Any]:
    return {
        "id": known.id,
        "name": "".join(part.capitalize() for part in known.name.split("-")),
        "shortDescription": {"text": known.name.replace("-", " ")},
        "fullDescription": {"text": known.why or known.name},
        "help": {"text": f"{known.why} {known.fix}".strip() or known.name, "markdown": f"{known.why}\n\n**Fix** {known.fix}"},
        "defaultConfiguration": {"level": _LEVELS[known.severity]},
    }


def _result(each: Finding, rule: int, reader: Reader) -> dict[str, Any]:
    known, lines = reader.known(each), reader.lines
    called = f" Called from: {' > '.join(each.via)}." if each.via else ""
    cell = f"{shown(lines(each.path)[1], each.line)}: " if each.path.endswith(".ipynb") else ""
    region = {"startLine": 1} if cell else {"startLine": max(each.line, 1), "startColumn": max(each.column, 1)}
    return {
        "ruleId": each.id,
        "ruleIndex": rule,
        "level": _LEVELS[known.severity],
        "message": {"text": f"{cell}{each.message}{_UNCERTAIN * (not each.certain)}. Fix: {known.fix}{called}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(each.path)}, "region": region}}],
    }


def _uri(path: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - slow to import, SARIF only

    return f"file://{quote(path)}" if path.startswith("/") else quote(path)
