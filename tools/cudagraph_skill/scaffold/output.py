"""Programs of `skill scaffold`, their receipts, and what `skill recommend` found, as text and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.output import one_line
from cudagraph_skill.scaffold.options import OPTIONS, WORKFLOWS
from cudagraph_skill.scaffold.render import checks_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cudagraph_skill.scaffold.file import Program
    from cudagraph_skill.scaffold.options import Options
    from cudagraph_skill.scaffold.receipt import Receipt
    from cudagraph_skill.scaffold.recommend import Recommendation
    from cudagraph_skill.text import Steps

    Spell = Callable[[Options], str]  # the call that asks for a program

_NAMED = re.compile(r"([\w-]+) \((?:high|medium|low) confidence\)")  # how a cause of `skill errors` opens
_TAIL = 12  # lines of the program's own output that are shown


# Programs -------------------------------------------------------------------------------------------------------------


def listing(next_step: str) -> str:
    """Return all workflows and options with a line each."""
    width = max(map(len, [*WORKFLOWS, *OPTIONS]))
    return "\n".join(
        [
            "workflows, by name or number:",
            *(f"  {known.number}  {name:{width}}  {known.summary}" for name, known in WORKFLOWS.items()),
            "options:",
            *(f"   --{name:{width}}  {option.help}" for name, option in OPTIONS.items()),
            f"next: {next_step}",
        ]
    )


def listing_data(next_step: str) -> dict[str, Any]:
    """Return the same as data."""
    workflows = [{"number": known.number, "name": name, "summary": known.summary} for name, known in WORKFLOWS.items()]
    options = {name: option.help for name, option in OPTIONS.items()}
    return {"workflows": workflows, "options": options, "next": next_step}


def notes(program: Program, path: str = "") -> list[str]:
    """Return what is to be said beside the text of a program."""
    number = WORKFLOWS[program.options.workflow].number
    where = f"{path} and {checks_file(path)}" if path and program.checks else path
    what = f"{where + ': ' if where else ''}workflow {number}, {program.options.workflow}"
    sentences = [one_line(f"{what}, written for {program.written_for}; replace what YOURS marks")]
    if program.unused:
        sentences.append(one_line(f"left aside, since this program does not use it: {', '.join(program.unused)}"))
    return sentences


def program_text(program: Program) -> str:
    """Return the text of a program; of a module and its checks each below a line with its name."""
    if not program.checks:
        return program.text
    file = "step.py"
    return f"# {file}\n{program.text}\n\n# {checks_file(file)}\n{program.checks}"


def program_data(program: Program, path: str, next_step: str) -> dict[str, Any]:
    """Return a program as JSON; its text is left out where it stands in a file. `checks` is that of a module's second file."""
    return {
        "workflow": program.options.workflow,
        "options": {name: value for name, value in program.options._asdict().items() if value and name != "workflow"},
        "versions": program.versions,
        "program": "" if path else program.text,
        "checks": "" if path else program.checks,
        "path": path,
        "notes": notes(program, path),
        "next": next_step,
    }


# Receipts -------------------------------------------------------------------------------------------------------------


def exit_code(receipt: Receipt) -> int:
    """Return 0 for a program shown to be right, 1 where a check failed."""
    return 0 if receipt.verdict == "ok" else 1


def text(receipt: Receipt, next_step: str, path: str = "") -> str:
    """Return a receipt for people; `path` is where it was written."""
    failed = receipt.verdict != "ok"
    lines = [f"{'failed' if failed else 'verified'}: {receipt.file}: {receipt.said}"]
    lines += [
        f"  {name:8}  {_figures(result)}"
        for name, result in receipt.report.items()
        if isinstance(result, dict) and name != "timing"
    ]
    lines += _timing(receipt.report.get("timing", {}))
    lines += [f"note: {note}" for note in receipt.report.get("notes", ())]
    lines += [
        f"{name}: {sentence}" for name, sentence in (("cause", receipt.cause), ("fallback", receipt.fallback)) if sentence
    ]
    if failed and receipt.log.strip():
        lines += [
            "output of the program, its last lines:",
            *(f"  | {line}" for line in receipt.log.rstrip().split("\n")[-_TAIL:]),
        ]
    if receipt.machine:
        lines.append(f"machine: {_machine(receipt.machine)}")
    if path:
        lines.append(f"receipt: {path}")
    return "\n".join([*map(one_line, lines), f"next: {next_step}"])


def data(receipt: Receipt, next_step: str, path: str = "") -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        **receipt._asdict(),
        "report": dict(receipt.report),
        "machine": dict(receipt.machine),
        "receipt": path,
        "next": next_step,
    }


def next_step(receipt: Receipt, steps: Steps) -> str:
    """Return one command to paste."""
    if receipt.verdict == "ok":
        return steps.read("SKILL.md#output-formats-and-metrics")
    named = _NAMED.match(receipt.cause)
    return steps.explain(named[1]) if named else steps.check(_step_of(receipt.file))


def _step_of(file: str) -> str:
    """Return the module step.py of check_step.py, else the file itself."""
    path = Path(file)
    module = path.with_name(path.name.removeprefix("check_"))
    return str(module) if module != path and module.is_file() else file


def _figures(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in result.items())


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _timing(result: Any) -> list[str]:
    """Return a line for each way that was timed, and how much faster it is than the first."""
    if not isinstance(result, dict):
        return []
    lines = []
    base = None
    for way, figures in result.items():
        if not _is_spread(figures):
            continue
        median, low, high = figures
        base = base or median
        faster = f", {base / median:.2f}x" if median and base != median else ""
        lines.append(f"  timing    {way} {median:g} us (p10 {low:g}, p90 {high:g}){faster}")
    return lines


def _is_spread(figures: Any) -> bool:
    return (
        isinstance(figures, list | tuple) and len(figures) == 3 and all(isinstance(figure, int | float) for figure in figures)
    )


def _machine(machine: Mapping[str, str]) -> str:
    names = {
        "gpu": "",
        "gpus": "GPUs ",
        "driver": "driver ",
        "torch": "torch ",
        "cuda": "CUDA ",
        "python": "Python ",
        "date": "",
    }
    return ", ".join(f"{name}{machine[key]}" for key, name in names.items() if machine.get(key))


# Recommendations ------------------------------------------------------------------------------------------------------


def recommendation(advice: Recommendation, spell: Spell) -> str:
    """Return what to begin with and why, what else there is, and the command."""
    lines = [f"{_name(advice.options)}: {WORKFLOWS[advice.options.workflow].summary}", f"why: {advice.why}"]
    lines += [f"note: {item}" for item in advice.notes]
    if advice.instead:
        lines.append("instead:")
        lines += [f"  {spell(item.options)}  ({item.when})" for item in advice.instead]
    if advice.questions:
        wide = max(map(len, advice.questions))
        lines.append("what decides:")
        lines += [f"  {option:{wide}}  {asks}" for option, asks in advice.questions.items()]
    return "\n".join([*lines, f"next: {spell(advice.options)}"])


def recommendation_data(advice: Recommendation, spell: Spell) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "workflow": advice.options.workflow,
        "number": WORKFLOWS[advice.options.workflow].number,
        "why": advice.why,
        "notes": list(advice.notes),
        "instead": [
            {"when": item.when, "workflow": item.options.workflow, "command": spell(item.options)} for item in advice.instead
        ],
        "questions": [{"option": option, "asks": asks} for option, asks in advice.questions.items()],
        "next": spell(advice.options),
    }


def _name(options: Options) -> str:
    return f"workflow {WORKFLOWS[options.workflow].number}, {options.workflow}"


def as_json(fields: Mapping[str, Any]) -> str:
    """Return one line."""
    return json.dumps(fields, ensure_ascii=False)
