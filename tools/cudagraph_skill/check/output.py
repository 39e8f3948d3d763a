"""Format the findings of a check as text, JSON, GitHub annotations and SARIF."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill import __version__
from cudagraph_skill.check.findings import LEFT_OUT, UNREAD_BODY
from cudagraph_skill.check.hazards import SEVERITIES, Hazard, hazard
from cudagraph_skill.check.input.source import UNREAD, shown
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cudagraph_skill.check.findings import Finding, Library, Region, Report, Unread
    from cudagraph_skill.text import Steps

    Lines = Callable[[str], tuple[list[str], list[tuple[int, int]]]]  # of a path: its lines, and the cells they stand in

FORMS = ("full", "concise", "json", "github", "sarif")
COMPARE = "references/correctness.md#procedure"  # how to compare replay with eager
SKIPS = "references/torch-compile.md#see-why-graphs-are-skipped-torch_logscudagraphs-perf_hints-counters"
_WIDEST = 140  # characters of a source line that are shown
_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "info": "\x1b[1;36m"}
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_ANNOTATIONS = {"error": "error", "warning": "warning", "info": "notice"}
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_FAULT = re.compile(
    rf"(?:.*\.pyw?|.*\.pyi|.*\.ipynb|<\w+>|[^.]*):[\w ]+:.*: {UNREAD}"
)  # in what is Python by its name, at a line
_UNCERTAIN = " (likely; only a run can tell)"


def verdict(report: Report) -> str:
    """Return `fails` (at capture), `wrong` (at replay), `partial` (captured code was not read), `clean`, `nothing` or `unread`.

    `nothing` is captured in what was read; `unread` is no Python.
    """
    worst = min((SEVERITIES.index(hazard(finding.id).severity) for finding in report.findings), default=2)
    if worst < 2:
        return "fails" if worst == 0 else "wrong"
    if report.unread:
        return "partial"
    if report.regions or report.findings:
        return "clean"
    return "unread" if any(UNREAD in note for note in report.notes) else "nothing"


def exit_code(report: Report, named: Collection[str] = ()) -> int:
    """Return 0 if nothing needs a change, 1 if something does, 2 if a file that the user `named` was not read.

    4 if captured code was not read, or not in full, and nothing was found in the rest.
    """
    kind = verdict(report)
    if kind in ("fails", "wrong"):
        return 1
    unread = [note for note in report.notes if UNREAD in note]
    if kind == "unread" or any(note.partition(":")[0] in named for note in unread):
        return 2
    return 4 if kind == "partial" else 0


def _known(finding: Finding) -> Hazard:
    return hazard(finding.id)


class Reader(NamedTuple):
    """Describe who reads a report: their next steps, where source lines come from, and whether they see colours.

    `known` returns what to print under a finding: by default the hazard of its id. `fix` applies the automatic
    fixes of a report; "" if the reader has no way to. `every` is whether each forward() was read as captured.
    """

    steps: Steps
    lines: Lines
    colour: bool = False
    known: Callable[[Finding], Hazard] = _known
    fix: str = ""
    every: bool = False


def written(report: Report, form: str, reader: Reader, diff: str = "") -> str:
    """Return a report in one of FORMS; JSON includes the `diff` of applied or possible fixes."""
    steps, lines = reader.steps, reader.lines
    if form == "json":
        return json.dumps({**data(report, reader), **({"diff": diff} if diff else {})}, ensure_ascii=False)
    if form == "sarif":
        return json.dumps(
            sarif(
                ordered(report),
                [*report.notes, *(not_read(part, lines) for part in report.unread)],
                verdict(report) != "unread",
                reader,
            ),
            ensure_ascii=False,
            indent=1,
        )
    findings = ordered(report)
    unread = [not_read(part, lines) for part in report.unread]
    end = [one_line(f"{summary(report, reader)}"), *_fixable(report, reader), f"next: {next_step(report, steps)}"]
    if form == "github":
        warnings = [_warning(part, lines) for part in report.unread]
        return "\n".join([*(annotation(finding, reader) for finding in findings), *warnings, *end])
    if form == "concise":
        return "\n".join([*(head(finding, reader) for finding in findings), *unread, *end])
    return "\n\n".join([*_blocks(findings, reader), *["\n".join(unread)] * bool(unread), "\n".join(end)])


def _blocks(findings: list[Finding], reader: Reader) -> list[str]:
    """Return a block of text for each mistake."""
    parts_of = _parts_of(findings)
    whole = [finding for finding in findings if finding not in parts_of]
    first = {finding.id: finding for finding in reversed(whole)}
    # The lines where a mistake shows stand in the block of the line that corrects it.
    also = {finding: [part for part, owner in parts_of.items() if owner == finding] for finding in whole}
    return [full(finding, first[finding.id] is finding, reader, also[finding]) for finding in whole]


def not_read(part: Unread, lines: Lines) -> str:
    """Return one line about captured code that was not read."""
    return one_line(f"{_place(part, lines)}: not read: {part.name}: {part.reason}")


def _fixable(report: Report, reader: Reader) -> list[str]:
    number = sum(finding.edit is not None for finding in report.findings)
    return [f"{number} fixable with `{reader.fix}`"] if number and reader.fix else []


def ordered(report: Report) -> list[Finding]:
    """Return the unique findings, by file in the order the files were named, then by line."""
    order: dict[str, int] = {}
    for path in (*(region.path for region in report.regions), *(finding.path for finding in report.findings)):
        order.setdefault(path, len(order))
    unique = {(finding.path, finding.line, finding.column, finding.id): finding for finding in reversed(report.findings)}
    return sorted(unique.values(), key=lambda finding: (order[finding.path], finding.line, finding.column, finding.id))


def summary(report: Report, reader: Reader) -> str:
    """Return one sentence: what was found, and what to change first."""
    lines = reader.lines
    kind, subject, many = verdict(report), _subject(report, lines), len(report.regions) > 1
    fails, wrong, costs = (_places(report, severity) for severity in SEVERITIES)
    if kind == "unread":
        return f"nothing was checked: {_count(sum(UNREAD in note for note in report.notes), 'file')} {UNREAD}"
    if kind == "partial":
        return _partial(report, subject, lines)
    if kind == "nothing":
        if reader.every:
            return (
                "no forward() and no function that seems to take tensors was found: name the captured function as FILE:FUNCTION"
            )
        return "no captured region found: name the captured function as FILE:FUNCTION, or check every forward() with --all"
    if kind == "clean":
        return f"{_clean(subject, costs)} {_after_clean(report)}"
    worst = next(
        finding for finding in ordered(report) if hazard(finding.id).severity == ("error" if kind == "fails" else "warning")
    )
    first = f"; first {_place(worst, lines)}{_quoted(worst.message)}: {_lowered(hazard(worst.id).fix)}"
    if kind == "wrong":
        replay = "their replay goes" if many else "its replay goes"
        return f"{subject} can be captured, but {replay} silently wrong at {_count(wrong, 'line')}{first}"
    also = f", {wrong} {'go' if wrong > 1 else 'goes'} silently wrong" if wrong else ""
    stand = f"{subject}, and not all can be graphed as they stand" if many else f"{subject} cannot be graphed as it stands"
    return f"{stand}: {_count(fails, 'line')} fail{'s' * (fails == 1)} at capture{also}{first}"


def _clean(subject: str, costs: int) -> str:
    notes = f", {_count(costs, 'note')}" if costs else ""
    return f"{subject}: no errors, no warnings{notes}."


def _after_clean(report: Report) -> str:
    """Return what to do with captured code that has no faults: torch.compile decides itself what it graphs."""
    left, unread = (sum(phrase in note for note in report.notes) for phrase in (LEFT_OUT, UNREAD_BODY))
    said = [f"torch.compile leaves {_count(left, 'place')} out of its CUDA graphs."] if left else []
    said += [f"The code of {_count(unread, 'compiled function')} was not read."] if unread else []
    compare = "ask torch what it graphed" if _only_compiled(report) else "verify replay against eager"
    return " ".join([*said, f"Next: {compare}."])


def _only_compiled(report: Report) -> bool:
    return bool(report.regions) and all(region.how == "reduce-overhead" for region in report.regions)


def _partial(report: Report, subject: str, lines: Lines) -> str:
    first, *others = report.unread
    more = f" and {_count(len(others), 'other place')}" if others else ""
    rest = f"; nothing was found in {subject}" if subject and subject != first.name else ""
    return f"captured code was not read in full: {_place(first, lines)} ({first.name}){more}{rest}"


def statistics(report: Report) -> str:
    """Return a line for each hazard: how often it was found, id, severity and name; the most frequent first."""
    counts: dict[str, int] = {}
    for finding in ordered(report):
        counts[finding.id] = counts.get(finding.id, 0) + 1
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return "\n".join(f"{count}\t{id_}\t{hazard(id_).severity}\t{hazard(id_).name}" for id_, count in rows) or "no findings"


def next_step(report: Report, steps: Steps) -> str:
    """Return the command to run next."""
    kind = verdict(report)
    if kind in ("fails", "wrong"):
        severity = "error" if kind == "fails" else "warning"
        return steps.explain(next(finding.id for finding in ordered(report) if hazard(finding.id).severity == severity))
    if kind == "clean":
        return steps.read(SKIPS if _only_compiled(report) else COMPARE)
    if kind == "unread":
        faulty = any(_FAULT.match(note) for note in report.notes)
        return "correct the syntax, then check again" if faulty else "name Python source that can be read"
    return steps.check("FILE:FUNCTION")


def data(report: Report, reader: Reader) -> dict[str, Any]:
    """Return the report as data. In a notebook, `line` counts across the joined code cells and `cell` names the place."""
    return {
        "verdict": verdict(report),
        "summary": summary(report, reader),
        "findings": [record(region, reader) for region in ordered(report)],
        "regions": [region._asdict() | _with_cell(region, reader.lines) for region in report.regions],
        "notes": list(report.notes),
        "unread": [part._asdict() | _with_cell(part, reader.lines) for part in report.unread],
        "next": next_step(report, reader.steps),
    }


def _with_cell(part: Finding | Region | Unread, lines: Lines) -> dict[str, str]:
    cell = _cell(part, lines)
    return {"cell": cell} if cell else {}


def record(finding: Finding, reader: Reader) -> dict[str, Any]:
    """Return one finding as data."""
    known, lines = reader.known(finding), reader.lines
    fields: dict[str, Any] = {
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "id": finding.id,
        "name": known.name,
        "severity": known.severity,
        "message": finding.message,
        "fix": known.fix,
        "via": list(finding.via),
    }
    fields |= _with_cell(finding, lines)
    if not finding.certain:
        fields["certain"] = False
    if finding.part_of:
        fields["part_of"] = finding.part_of
    if finding.because:
        fields["because"] = list(finding.because)
    if finding.library:
        fields["library"] = finding.library._asdict()
    return fields


def _subject(report: Report, lines: Lines) -> str:
    names = dict.fromkeys(_place(region, lines) if region.name.startswith("<") else region.name for region in report.regions)
    if len(report.regions) == 1:
        return next(iter(names))
    if report.regions:
        return f"{len(report.regions)} captured regions ({', '.join(list(names)[:3])}{', …' if len(names) > 3 else ''})"
    return report.findings[0].path if report.findings else ""


def _places(report: Report, severity: str) -> int:
    whole = [finding for finding in report.findings if finding not in _parts_of(report.findings)]
    return len({(finding.path, finding.line) for finding in whole if hazard(finding.id).severity == severity})


def _parts_of(findings: list[Finding]) -> dict[Finding, Finding]:
    """Return the findings that show a mistake which another one corrects, with that one."""
    places = {(f"{finding.path}:{finding.line}", finding.id): finding for finding in findings}
    known = ((finding, places.get((finding.part_of, finding.id))) for finding in findings if finding.part_of)
    return {finding: owner for finding, owner in known if owner is not None}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _quoted(message: str) -> str:
    """Return the expression that a message names."""
    match = re.search(r"`[^`]+`", message)
    return f" ({match[0]})" if match else ""


def _lowered(sentence: str) -> str:
    """Return a sentence with its first letter lowered, to follow a colon."""
    return sentence if sentence[1:2].isupper() or not sentence[:1].isalpha() else sentence[0].lower() + sentence[1:]


def _place(part: Finding | Region | Unread, lines: Lines) -> str:
    return f"{part.path}:{_cell(part, lines) or part.line}"


def _cell(part: Finding | Region | Unread, lines: Lines) -> str:
    """Return `cell 3:2` of a place in a notebook; "" elsewhere."""
    place = shown(lines(part.path)[1], part.line) if part.path.endswith(".ipynb") else ""
    return place if place.startswith("cell") else ""


def one_line(text: str) -> str:
    """Join lines and escape control characters, since messages quote the user's code."""
    return printable(" ".join(text.split("\n")))


def head(finding: Finding, reader: Reader) -> str:
    """Return one finding as one line, in the form that compilers use."""
    lines, colour, known = reader.lines, reader.colour, reader.known(finding)
    place, message = (
        one_line(f"{_place(finding, lines)}:{finding.column}:"),
        one_line(finding.message + _UNCERTAIN * (not finding.certain)),
    )
    severity = f"{_COLOURS[known.severity]}{known.severity}{_PLAIN}" if colour else known.severity
    return (
        f"{_BOLD}{place}{_PLAIN} {finding.id} {severity} {message}" if colour else f"{place} {finding.id} {severity} {message}"
    )


def full(finding: Finding, first: bool, reader: Reader, also: Collection[Finding] = ()) -> str:
    """Return one finding with its source line, and where the same mistake shows `also`; `why` and `more` at the first of an id."""
    known = reader.known(finding)
    parts = [head(finding, reader), *_excerpt(finding, reader.lines)]
    parts += [f"  also: {one_line(f'{_place(part, reader.lines)}: {part.message}')}" for part in also]
    if first and known.why:
        parts.append(f"  why: {one_line(known.why)}")
    parts.append(f"  fix: {one_line(known.fix)}")
    if finding.via:
        parts.append(f"  called from: {one_line(' > '.join(finding.via))}")
    if finding.library:
        parts.append(f"  in: {one_line(library_line(finding.library))}")
    parts += [f"  because: {one_line(reason)}" for reason in finding.because]
    if first:
        parts.append(f"  more: {reader.steps.explain(finding.id)}")
    return "\n".join(parts)


def library_line(library: Library) -> str:
    """Return where a library does it, as file, line, function and release."""
    release = f" ({library.package} {library.version}".rstrip() + ")" if library.package else ""
    return f"{library.path}:{library.line} in {library.function}{release}"


def _excerpt(finding: Finding, lines: Lines) -> list[str]:
    """Return the source line with a caret under the column; a long line is cut around it."""
    source, cells = lines(finding.path)
    if not 0 < finding.line <= len(source):
        return []
    line, column = source[finding.line - 1].replace("\t", " "), max(finding.column, 1) - 1
    start = max(0, min(column - _WIDEST // 2, len(line) - _WIDEST)) if len(line) > _WIDEST else 0
    shown_line = printable(line[start : start + _WIDEST])
    number = str(cells[finding.line - 1][1] if finding.line <= len(cells) else finding.line)
    before = _width(shown_line[: column - start])
    return [f"  {number} | {shown_line}", f"  {' ' * len(number)} | {' ' * before}^"]


def _width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - rare

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def annotation(finding: Finding, reader: Reader) -> str:
    """Return a finding as a workflow command of GitHub Actions."""
    known, lines = reader.known(finding), reader.lines
    cell = _cell(finding, lines)
    message = f"{finding.message}{_UNCERTAIN * (not finding.certain)}. Fix: {known.fix}"
    where = {"file": finding.path, "line": str(finding.line), "col": str(finding.column), "title": f"{finding.id} {known.name}"}
    if cell:
        where, message = {"file": finding.path, "title": where["title"]}, f"{cell}: {message}"
    properties = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in where.items())
    return f"::{_ANNOTATIONS[known.severity]} {properties}::{_escaped(message)}"


def _warning(part: Unread, lines: Lines) -> str:
    line = "" if _cell(part, lines) else f",line={part.line}"  # lines of a notebook's file are JSON
    return f"::warning file={_escaped(part.path, ':,')}{line}::{_escaped(not_read(part, lines))}"


def _escaped(text: str, also: str = "") -> str:
    return printable("".join(f"%{ord(char):02X}" if char in f"%\r\n{also}" else char for char in text))


def sarif(findings: list[Finding], notes: list[str], done: bool, reader: Reader) -> dict[str, Any]:
    """Return SARIF 2.1.0 with one run; `done` is False if nothing could be read."""
    rules = list(dict.fromkeys(finding.id for finding in findings))
    known = {finding.id: reader.known(finding) for finding in findings}
    messages = [{"level": "warning", "message": {"text": note}} for note in notes]
    run = {
        "tool": {"driver": {"name": "cudagraph-skill", "version": __version__, "rules": [_rule(known[id_]) for id_ in rules]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": done, "toolExecutionNotifications": messages}],
        "results": [_result(finding, rules.index(finding.id), reader) for finding in findings],
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


def _result(finding: Finding, rule: int, reader: Reader) -> dict[str, Any]:
    known, lines = reader.known(finding), reader.lines
    called = f" Called from: {' > '.join(finding.via)}." if finding.via else ""
    cell = f"{place}: " if (place := _cell(finding, lines)) else ""
    region = (
        {"startLine": 1}
        if finding.path.endswith(".ipynb")
        else {"startLine": max(finding.line, 1), "startColumn": max(finding.column, 1)}
    )
    return {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": _LEVELS[known.severity],
        "message": {"text": f"{cell}{finding.message}{_UNCERTAIN * (not finding.certain)}. Fix: {known.fix}{called}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(finding.path)}, "region": region}}],
    }


def _uri(path: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - slow to import, SARIF only

    return f"file://{quote(path)}" if path.startswith("/") else quote(path)
