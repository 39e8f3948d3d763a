"""A receipt: what a scaffolded program showed on this machine's GPU, or why it failed and how to run without the graph."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from importlib.util import decode_source
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.interpreter import interpreter as find_interpreter
from cudagraph_skill.check.input.source import parsed, read_source
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import process
from cudagraph_skill.scaffold.guest.verify import CHECKS
from cudagraph_skill.scaffold.render import checks_file
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_GUEST = Path(__file__).with_name("guest") / "verify.py"
_NEEDED = ("main", *CHECKS)
_LARGEST = 16 << 20  # bytes of a program, or of a receipt
_LATE = "did not end within"  # how `once.run` begins to say that the deadline came
_LOG = 6000  # characters of the output that a receipt keeps
_LONG = 300  # characters of an error that are repeated
_LEAST = 30.0  # seconds that the eager way has after a failure, however late that came
_FINDINGS = 3  # of the static check that are named
_KNOWN_BY = {"verdict", "report", "machine", "digest"}  # keys by which a receipt is known, whichever version wrote it


class Receipt(NamedTuple):
    """What a run of `file` showed: `verdict` is ok or failed, `said` one sentence, `report` what the checks returned.

    Beside parity, rollback and timing, `report` may hold `replay` (wall_us, busy_us, nodes, wall_over_busy) and `notes`.
    `machine` is gpu, driver, torch, cuda, python, gpus and date; `command` the arguments that made the program, or "";
    `digest` that of its text. Of a failure, `cause` says what may lie behind it and `fallback` how to run eagerly, each ""
    where that is not known; `log` is the end of the output.
    """

    file: str
    verdict: str
    said: str
    report: Mapping[str, Any]
    machine: Mapping[str, str]
    command: str
    digest: str
    cause: str
    fallback: str
    log: str


def verify(  # noqa: PLR0913 - what to run, and who listens
    file: Path,
    *,
    python: str,
    deadline: float,
    processes: int = 1,
    memory: int = 0,
    command: str = "",
    on_progress: Callable[[str], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Receipt:
    """Run the program's checks in `python`; where one fails, find out whether its eager way works, and what may be the cause.

    `deadline` is in seconds; `memory` bounds the host memory of its processes, in bytes, 0 for no bound.

    Raises:
        SkillError: the file is no such program, or its receipt would replace another file (exit code 2), the machine lacks
            something (3), or it was cancelled.
    """
    text = program_text(file)
    place(file)

    def guest(seconds: float, *flags: str) -> process.Run:
        return run_guest(
            file,
            python,
            flags,
            processes=processes,
            deadline=seconds,
            memory=memory,
            on_progress=on_progress,
            cancelled=cancelled,
        )

    start = time.monotonic()
    ran = guest(deadline)
    raise_if_lacking(ran, python)
    made = received(file, with_modules(file, text), ran, command)
    failed = next((event for event in ran.events if event["event"] == "failed"), {})
    if made.verdict == "ok" or failed.get("check") == "import" or not {"prepare", "batches"} <= bound(_tree(text)):
        return made
    eager = guest(max(_LEAST, deadline - (time.monotonic() - start)), "--eager")
    return explained(made, eager, text, ran.output, file)


def run_guest(  # noqa: PLR0913 - as above
    file: Path,
    python: str,
    flags: Sequence[str] = (),
    *,
    processes: int = 1,
    deadline: float,
    memory: int = 0,
    environment: Mapping[str, str] | None = None,
    on_progress: Callable[[str], object] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> process.Run:
    """Run guest/verify.py on the file, with `environment` beside that of this process.

    Raises:
        SkillError: the interpreter cannot be started, or it was cancelled.
    """

    def told(event: dict[str, Any]) -> None:
        if on_progress and event["event"] == "began":
            on_progress(f"{file}: {event['check']}")

    interpreter = find_interpreter(python)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.jsonl")
        command = [interpreter, str(_GUEST), str(file), "--report", str(report), "--processes", str(processes), *flags]
        ran = process.run(
            command,
            report,
            deadline=deadline,
            memory=memory,
            environment=environment,
            on_event=told,
            cancelled=cancelled,
        )
    if ran.ended == process.CANCELLED:
        raise SkillError(f"the verification of {file} was cancelled")
    return ran


# The program ----------------------------------------------------------------------------------------------------------


def program_text(file: Path) -> str:
    """Return the text of a program that can be verified.

    Raises:
        SkillError: it cannot be read, is no Python, or lacks a function that is needed.
    """
    data = _bytes(file)
    if file.suffix != ".py":
        raise SkillError(f"{file}: Python imports files whose name ends in .py: rename it")
    source = read_source(str(file), _decoded(file, data))
    if source.tree is None:
        raise SkillError(f"{source.problem}; nothing was run")
    there = bound(source.tree)
    missing = [name for name in _NEEDED if name not in there]
    if missing and "*" not in there:
        needed, lacks = (_listed([f"{name}()" for name in names]) for names in (_NEEDED, missing))
        raise SkillError(
            f"{file} cannot be verified: it has no {lacks}; a program needs {needed}, of which main() calls the others, "
            "as those of `skill scaffold` do"
        )
    return source.text


def checked_by(file: Path) -> Path:
    """Return the program that checks a file: check_step.py beside a module step.py that has no checks, else the file itself."""
    checks = file.with_name(checks_file(file.name)) if file.suffix == ".py" else file
    if checks == file or not checks.is_file():
        return file
    tree, _ = parsed(_decoded(file, _bytes(file)))
    return checks if tree is not None and not bound(tree).intersection(_NEEDED) else file


def with_modules(file: Path, text: str) -> str:
    """Return the modules beside a program that it imports from, then its own text: all that its receipt is about."""
    return "".join([*(_decoded(path, _bytes(path)) for path in modules(file, text)), text])


def modules(file: Path, text: str) -> list[Path]:
    """Return the modules beside a program that it imports from, such as step.py of check_step.py."""
    nodes = [node for node in _tree(text).body if isinstance(node, ast.ImportFrom) and not node.level]
    beside = [file.with_name(f"{name}.py") for name in dict.fromkeys(node.module for node in nodes)]
    return [path for path in beside if path.is_file()]


def _bytes(file: Path) -> bytes:
    """Return what stands in a file of sane size.

    Raises:
        SkillError: it cannot be read, or is a folder, a device, a pipe, or too large.
    """
    try:
        mode = file.stat().st_mode  # asked first: opening a pipe waits for whoever writes into it
        if stat.S_ISREG(mode):
            with file.open("rb") as opened:
                data = opened.read(_LARGEST + 1)
            if len(data) <= _LARGEST:
                return data
            why = f"it has more than {_LARGEST >> 20} MiB"
        else:
            why = "that is a folder" if stat.S_ISDIR(mode) else "that is no regular file"
    except OSError as error:
        why = f"{error.strerror}"
    raise SkillError(f"{file}: {why}; name a program that `skill scaffold` wrote")


def _decoded(file: Path, data: bytes) -> str:
    """Return source as Python decodes it: by its byte order mark, or as a comment in its first lines says, else as UTF-8."""
    try:
        return decode_source(data)
    except (SyntaxError, ValueError, LookupError) as error:
        raise SkillError(
            f"{file}: {printable(str(error))}: save it as UTF-8, or name its encoding in its first line, `# coding: latin-1`"
        ) from None


def _tree(text: str) -> ast.Module:
    """Return the syntax of a text that `program_text` gave."""
    tree, _ = parsed(text)
    assert tree is not None
    return tree


def bound(tree: ast.Module) -> set[str]:
    """Return names that a module binds at its top level; "*" where some come from another module unnamed."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return names


def digest(text: str) -> str:
    """Return what a program is known by."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


# What a run showed ----------------------------------------------------------------------------------------------------


def raise_if_lacking(ran: process.Run, python: str) -> None:
    """Check that the program was run at all.

    Raises:
        SkillError: the machine lacks something (exit code 3).
    """
    lacking = next((event for event in ran.events if event["event"] == "lacking"), None)
    if lacking:
        raise SkillError(printable(lacking["said"]), 3)
    kinds = {event["event"] for event in ran.events}
    if "machine" in kinds:
        return
    last = (ran.output.strip().splitlines() or [""])[-1].strip()
    how = f"it {ran.ended or 'ended'}{', saying: ' + printable(last)[:_LONG] if last else ''}"
    came = "did not get through `import torch`" if "started" in kinds else "did not run our file"
    if ran.ended.startswith(_LATE):
        raise SkillError(f"{python} {came} in time ({how}): give it longer with `--deadline`", 3)
    raise SkillError(f"{python} {came} ({how}): name a Python 3.10 or newer that has torch with `--python`", 3)


def received(file: Path, text: str, ran: process.Run, command: str = "") -> Receipt:
    """Return the receipt of a run, without what only another run can tell; `text` is that of all its files."""
    report = {event["check"]: event["result"] for event in ran.events if event["event"] == "result"}
    notes = [event["said"] for event in ran.events if event["event"] == "note"]
    wrong = _wrong(file, ran, report)
    if not wrong and ran.ended:  # after the checks, under the profiler
        notes.append(f"the replay was not measured: the program {ran.ended}")
    return Receipt(
        file=str(file),
        verdict="failed" if wrong else "ok",
        said=wrong or shown(report),
        report={**report, **({"notes": notes} if notes else {})},
        machine=_machine(ran.events),
        command=command,
        digest=digest(text),
        cause="",
        fallback="",
        log=ran.output[-_LOG:],
    )


def _machine(events: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return what the guest said of the machine, the GPU first."""
    facts = {key: str(value) for event in events if event["event"] == "machine" for key, value in event.items()}
    facts.pop("event", None)
    return {"gpu": facts.pop("gpu", ""), **facts, "date": time.strftime("%Y-%m-%d")}


def _wrong(file: Path, ran: process.Run, report: Mapping[str, Any]) -> str:
    """Return why the program failed, as a sentence; "" where it did not."""
    failed = next((item for item in ran.events if item["event"] == "failed"), None)
    if failed:
        return _raised(file, failed)
    began = [item["check"] for item in ran.events if item["event"] == "began"]
    happened = {item["event"] for item in ran.events}
    if "checked" not in happened:
        return f"{_unfinished(began, report)}: the program {ran.ended or 'ended with exit code 0'}"
    missing = [f"{name}()" for name in CHECKS if name not in report]
    if missing:
        return f"main() came back without having called {_listed(missing)}"
    measured_when_ended = began[-1] == "replay" and "done" not in happened
    return f"the checks passed, then the program {ran.ended}" if ran.ended and not measured_when_ended else ""


def _unfinished(began: Sequence[str], report: Mapping[str, Any]) -> str:
    """Return the check that began last and gave no result, else where the program was before them."""
    return next((check for check in reversed(began) if check not in report), "main" if began else "import")


def _raised(file: Path, failed: dict[str, Any]) -> str:
    """Return what a check raised, and the line of the file that it came through last."""
    lines = [" ".join(line.split()) for line in str(failed["error"]).splitlines() if line.strip()] or ["it failed"]
    message = printable("; ".join(lines) if failed["kind"] == "wrong" else lines[0])
    places = re.findall(rf'File "[^"\n]*{re.escape(os.sep + file.name)}", line (\d+)', str(failed["traceback"]))
    where = f" ({file}:{places[-1]})" if places else ""
    what = {"wrong": "does not hold: ", "memory": "ran out of GPU memory: "}.get(failed["kind"], "failed: ")
    return f"{failed['check']} {what}{message[:_LONG]}{where}"


def shown(report: Mapping[str, Any]) -> str:
    """Return what the checks showed, in one sentence."""
    parity, rollback, timing = (report.get(name) or {} for name in CHECKS)
    parts = []
    if {"steps", "graph", "without_graph_twice"} <= set(parity):
        back = f", {rollback['graph_then_eager']:g} after going back to eager" if "graph_then_eager" in rollback else ""
        rounding = f", and by {parity['sensitivity']:g} where rounding differs" if "sensitivity" in parity else ""
        parts.append(
            f"over {parity['steps']} steps the graph differs by {parity['graph']:g} from the same without it{back} "
            f"(which differs from itself by {parity['without_graph_twice']:g}{rounding})"
        )
    else:
        parts.append("parity and rollback hold")
    if {"eager", "graph"} <= set(timing):
        eager, graph = timing["eager"][0], timing["graph"][0]
        parts.append(f"eager {eager:,.0f} us, graph {graph:,.0f} us: {eager / graph:.1f}x")
    if "replay" in report:
        parts.append(f"a call of the graph takes {report['replay']['wall_over_busy']:.2f} times what the GPU is busy")
    return "; ".join(parts)


# A failure ------------------------------------------------------------------------------------------------------------


def explained(made: Receipt, eager: process.Run, text: str, log: str, file: Path) -> Receipt:
    """Return a failure with its likely cause and the way back to eager; or with that the eager way fails too."""
    done = next((event for event in eager.events if event["event"] == "result" and event["check"] == "eager"), None)
    if done is None:
        failed = next((event for event in eager.events if event["event"] == "failed"), None)
        why = str(failed["error"]).partition("\n")[0][:_LONG] if failed else f"it {eager.ended or 'ended early'}"
        return made._replace(said=f"{made.said}; its eager way fails too ({printable(why)}), so this is not the graph's doing")
    return made._replace(
        cause=cause(log, [*modules(file, text), file]), fallback=fallback(str(file), text, done["result"]["steps"])
    )


def cause(log: str, files: Sequence[Path]) -> str:
    """Return what the error index makes of the log and the static check of the source; "" where neither says anything."""
    from cudagraph_skill.diagnosis.entries import open_table  # noqa: PLC0415
    from cudagraph_skill.diagnosis.rank import diagnose  # noqa: PLC0415 - for a failure only
    from cudagraph_skill.paths import skill_root  # noqa: PLC0415

    parts = []
    diagnoses = diagnose(log, open_table(skill_root())).diagnoses
    if diagnoses:
        first = diagnoses[0]
        parts.append(f"{first.cause} ({first.confidence} confidence): {first.what} Fix: {first.here or first.fix}")
    return printable(" ".join([*parts, *_static(files)]))


def _static(files: Sequence[Path]) -> list[str]:
    """Return the first findings of the static check."""
    from cudagraph_skill.check import check_paths  # noqa: PLC0415 - as above
    from cudagraph_skill.check.hazards import hazard  # noqa: PLC0415
    from cudagraph_skill.check.input.settings import Options, settings  # noqa: PLC0415

    try:
        findings = check_paths(list(map(str, files)), settings(files[0], Options())).findings
    except Exception:  # noqa: BLE001 - what the run saw stands without it
        return []
    serious = [finding for finding in findings if hazard(finding.id).severity != "info"]
    return [f"{finding.path}:{finding.line}: {finding.id} {finding.message}." for finding in serious[:_FINDINGS]]


def fallback(name: str, text: str, steps: int) -> str:
    """Return where the program's eager way is, in the words of its `prepare`; "" where that is no function of the file."""
    tree = _tree(text)
    own = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    prepare = own.get("prepare")
    if not isinstance(prepare, ast.FunctionDef) or not prepare.args.args:
        return ""
    how = prepare.args.args[0].arg
    eager, graph = (
        [name for name in dict.fromkeys(_calls(prepare.body, how, way)) if name in own and name != "batches"]
        for way in ("eager", "graph")
    )
    only = [f"{name} (line {own[name].lineno})" for name in graph if name not in eager]
    instead = (
        f": {_listed([f'{name} (line {own[name].lineno})' for name in eager])} without {_listed(only)}"
        if only and eager
        else ""
    )
    return f'prepare("eager") ({name}:{prepare.lineno}) runs without a graph, and ran {steps} steps here{instead}'


def _calls(statements: Sequence[ast.stmt], how: str, way: str) -> list[str]:
    """Return names that are called, in their order, where the argument `how` is `way`; up to the end of the function."""
    names: list[str] = []
    waiting = list(reversed(statements))
    while waiting:
        node = waiting.pop()
        known = _truth(node.test, how, way) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and known is not None:
            waiting += reversed(node.body if known else node.orelse)
            continue
        names += _called(node, how, way)
        if isinstance(node, ast.Return | ast.Raise):
            break
    return names


def _called(node: ast.AST, how: str, way: str) -> list[str]:
    names: list[str] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        known = _truth(node.test, how, way) if isinstance(node, ast.IfExp) else None
        if isinstance(node, ast.IfExp) and known is not None:
            waiting.append(node.body if known else node.orelse)
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.append(node.func.id)
        waiting += reversed(list(ast.iter_child_nodes(node)))
    return names


def _truth(test: ast.expr, how: str, way: str) -> bool | None:
    """Return what a comparison of `how` with constants gives; None for any other expression."""
    if not (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == how and len(test.ops) == 1):
        return None
    with suppress(ValueError, TypeError):
        other = ast.literal_eval(test.comparators[0])
        match test.ops[0]:
            case ast.Eq():
                return bool(way == other)
            case ast.NotEq():
                return bool(way != other)
            case ast.In():
                return way in other
            case ast.NotIn():
                return way not in other
    return None


# The file -------------------------------------------------------------------------------------------------------------


def place(file: Path) -> Path:
    """Return where the receipt of a program lies: step.receipt.json beside step.py.

    Raises:
        SkillError: something else lies there.
    """
    path = file.with_name(f"{file.stem}.receipt.json")
    if os.path.lexists(path) and not _is_receipt(path):
        raise SkillError(
            f"{path} is no receipt and stays as it is: move it away, or rename {file.name}, whose receipt would go there"
        )
    return path


def _is_receipt(path: Path) -> bool:
    try:
        data = json.loads(_bytes(path))
    except (SkillError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and set(data) >= _KNOWN_BY


def write(receipt: Receipt, file: Path) -> Path:
    """Write the receipt beside the program.

    Raises:
        SkillError: that cannot be done, or would replace what is no receipt.
    """
    path = place(file)
    try:
        text = json.dumps(receipt._asdict(), indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8", errors="backslashreplace")  # a name of a file may hold what is no text
    except OSError as error:
        raise SkillError(f"{path}: {error.strerror}; the receipt is written beside the program") from None
    return path
