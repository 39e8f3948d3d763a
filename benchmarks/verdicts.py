"""How often `skill check --run` is right about programs with known verdicts, and what it costs.

    python benchmarks/verdicts.py run > out.json     on a GPU machine, with torch and the standard library (about 5 minutes);
                                                   `run mutants` or `run snippets/301` those whose set and name begin so,
                                                   `run time` only the times, also after transformers where it is there
    python benchmarks/verdicts.py keep out.json ...  back here: adds the rows to benchmarks/evidence/verdicts.json
    python benchmarks/verdicts.py                    the figures of that evidence; --misses names what was wrong
    python benchmarks/verdicts.py --check            exit 1 if one is worse than in floors.yaml, or a program has changed

Four sets of programs, none of which says what to expect: `snippets` (benchmarks/snippets, verdicts seen on a GPU by
tests/replayed.py), `mutants` (benchmarks/mutants: steps that are right, and the same with one seeded bug that goes silently
wrong), `small` (these bugs in steps where what they break has a tiny weight, so that replays are off by little more than
rounding, and those steps without the bug), `hazards` (the captured functions of tests/hazards). A silent error is caught where
the verdict is silent_wrong; a false alarm is any other verdict than safe on a program that is. Lines are right where the label
names them: of a snippet its hazard lines, of a mutant those that were changed.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import importlib.util
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from cudagraph_skill.capture import session  # noqa: E402
from cudagraph_skill.capture.request import Request  # noqa: E402
from cudagraph_skill.errors import SkillError  # noqa: E402

EVIDENCE = HERE / "evidence" / "verdicts.json"
_BARE = """
import time
start = time.perf_counter()
import torch
there = time.perf_counter()
torch.zeros(1, device="cuda")
print(there - start, time.perf_counter() - there)
"""
_AT_ONCE, _DEADLINE_SECONDS, _TIMED = 12, 100, 12
_TRANSFORMERS = ("001", "001", "004", "012", "026")  # of benchmarks/library; 012 measures rounding
_HAZARD = re.compile(r"^def ((?:bad|good)_\w+)\(", re.MULTILINE)
_SEVERITY = re.compile(r"^### (CG\d{3}) .*?^- \*\*Severity\*\* (\w+)", re.MULTILINE | re.DOTALL)
_SETS = ("snippets", "mutants", "small", "hazards")
_TRUTH = {"error": "capture_error", "warning": "silent_wrong", "info": "safe"}


class Program(NamedTuple):
    """One callable with a known verdict: `target` is what `--run` is given, `inputs` the function for its arguments."""

    set: str
    id: str
    kind: str
    target: str
    inputs: str
    truth: str
    lines: tuple[int, ...]
    digest: str


# The programs ---------------------------------------------------------------------------------------------------------


def programs(folder: Path) -> list[Program]:
    """Return all programs; the mutants are written to `folder`."""
    return [*snippets(), *mutants(folder), *small(folder), *hazards()]


def snippets() -> list[Program]:
    """Return each labelled snippet."""
    labels = json.loads((HERE / "snippets.json").read_text(encoding="utf-8"))
    return [
        Program(
            "snippets", name, label["cause"], str(HERE / "snippets" / f"{name}.py"), "", label["verdict"],
            (*label["hazard_lines"], *label["also_ok_lines"]), _digest((HERE / "snippets" / f"{name}.py").read_text()),
        )
        for name, label in labels.items()
    ]  # fmt: skip


def mutants(folder: Path) -> list[Program]:
    """Return each correct base and, written to `folder`, each of its seeded bugs."""
    listed = []
    for path in sorted((HERE / "mutants").glob("*.py")):
        base = path.read_text(encoding="utf-8")
        listed.append(Program("mutants", path.stem, "base", str(path), "", "safe", (), _digest(base)))
        for bug in bugs(path):
            text = mutated(base, bug["edits"], f"{path.stem}: {bug['name']}")
            listed.append(_written(folder, "mutants", _name(path, bug), bug["kind"], (base, text)))
    return listed


def small(folder: Path) -> list[Program]:
    """Write to `folder` each bug whose effect can be scaled down, and each base that is scaled for it; return them.

    A base that several bugs share has the name of the first.
    """
    listed, seen = [], set()
    for path in sorted((HERE / "mutants").glob("*.py")):
        for bug in (bug for bug in bugs(path) if "small" in bug):
            name = _name(path, bug)
            base = mutated(path.read_text(encoding="utf-8"), bug["small"], f"{name}, small")
            if base not in seen:
                listed.append(_written(folder, "small", f"{name}__base", "base", (base, base)))
            seen.add(base)
            text = mutated(base, bug["edits"], f"{name}, small")
            listed.append(_written(folder, "small", f"{name}__small", bug["kind"], (base, text)))
    return listed


def bugs(path: Path) -> list[dict[str, Any]]:
    """Return the seeded bugs of a base."""
    listed: list[dict[str, Any]] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return listed


def _name(path: Path, bug: dict[str, Any]) -> str:
    return f"{path.stem}__{bug['name'].replace('-', '_')}"


def _written(folder: Path, set_: str, id_: str, kind: str, texts: tuple[str, str]) -> Program:
    """Write a program to `folder`; `texts` are its base and its own. It is silently wrong, unless it is its base."""
    base, text = texts
    target = folder / f"{id_}.py"
    target.write_text(text, encoding="utf-8")
    truth = "safe" if text == base else "silent_wrong"
    return Program(set_, id_, kind, str(target), "", truth, changed(base, text), _digest(text))


def mutated(text: str, edits: list[list[str]], name: str) -> str:
    """Return the text with every edit applied; each old part must occur exactly once."""
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{name}: {text.count(old)} times in the base, must be once: {old[:60]!r}")
        text = text.replace(old, new)
    return text


def changed(base: str, text: str) -> tuple[int, ...]:
    """Return the numbers of the lines that the base does not have."""
    there = collections.Counter(base.splitlines())
    return tuple(number for number, line in enumerate(text.splitlines(), 1) if line not in there)


def hazards() -> list[Program]:
    """List the captured functions of the hazards' programs that can run on one GPU with torch 2.11."""
    severities = dict(_SEVERITY.findall((ROOT / "references" / "hazards.md").read_text(encoding="utf-8")))
    listed = []
    for path in sorted((ROOT / "tests" / "hazards").glob("cg*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^# needs: ", text, re.MULTILINE):
            continue
        id_ = path.name[:5].upper()
        for name in _HAZARD.findall(text):
            inputs = next((function for function in (f"inputs_{name}", "inputs") if f"def {function}(" in text), "")
            truth = _TRUTH[severities[id_]] if name.startswith("bad") else "safe"
            listed.append(Program("hazards", f"{id_}:{name}", id_, f"{path}:{name}", inputs, truth, (), _digest(text)))
    return listed


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# The run --------------------------------------------------------------------------------------------------------------


def run(only: str) -> dict[str, Any]:
    """Examine every program, several at once, then some alone for their times."""
    import on_gpu

    with tempfile.TemporaryDirectory() as folder:
        wanted = [program for program in programs(Path(folder)) if f"{program.set}/{program.id}".startswith(only)]
        shares = [wanted[start::_AT_ONCE] for start in range(_AT_ONCE)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            rows = [row for share in pool.map(_examined, shares) for row in share]
        timed = _timed() if only == "time" or "snippets".startswith(only) else {}
    command = f"python benchmarks/verdicts.py run {only}".strip()
    return {**on_gpu.machine(command), "time": timed, "rows": sorted(rows, key=lambda row: str(row["id"]))}


def _examined(share: list[Program]) -> list[dict[str, Any]]:
    """Return a row for each program; all run in the same warm guest."""
    with session.Guests() as guests:
        return [_row(program, guests) for program in share]


def _row(program: Program, guests: session.Guests) -> dict[str, Any]:
    request = Request(program.target, sys.executable, str(ROOT), inputs=program.inputs, deadline=_DEADLINE_SECONDS)
    start = time.monotonic()
    row: dict[str, Any] = {"set": program.set, "id": program.id, "digest": program.digest}
    try:
        result = next(session.examine([request], guests, session.Listener(lambda _: None)))
    except SkillError as error:
        return {**row, "verdict": "misuse", "said": str(error)}
    return {
        **row,
        "verdict": result.verdict,
        "worst": result.rounds.get("worst"),
        "lines": [[item.line, item.id, item.observed] for item in result.findings],
        "seconds": round(time.monotonic() - start, 2),
        "steps": round(sum(step.seconds for step in result.steps), 2),
        "said": result.said.replace(str(ROOT), "")[:160],
    }


def _timed() -> dict[str, Any]:
    """Return seconds, alone: torch and CUDA in a bare process, the first verdict, and one more in the same guest.

    `beyond_steps` is `one_more` without the steps of the check: the fork, the module's import, CUDA's start, the static check.
    """
    after_import = _one_more(_of_transformers()) if importlib.util.find_spec("transformers") else []
    few = [program for program in snippets() if program.truth == "safe"][:_TIMED]
    parts = [list(map(float, subprocess.check_output([sys.executable, "-c", _BARE], text=True).split())) for _ in range(3)]
    firsts = []
    for _ in range(3):
        with session.Guests() as guests:
            firsts.append(_row(few[0], guests)["seconds"])
    rows = _one_more(few)
    return {
        "torch_import": [round(seconds[0], 2) for seconds in parts],
        "cuda_init": [round(seconds[1], 2) for seconds in parts],
        "first_verdict": firsts,
        "one_more": [row["seconds"] for row in rows],
        "beyond_steps": [_beyond(row) for row in rows],
        "beyond_steps_transformers": [_beyond(row) for row in after_import],
    }


def _one_more(chosen: list[Program]) -> list[dict[str, Any]]:
    """Return the rows of all but the first program, one after another in the same guest."""
    with session.Guests() as guests:
        return [_row(program, guests) for program in chosen][1:]


def _of_transformers() -> list[Program]:
    """Return programs of benchmarks/library that use transformers, the first of them twice: it is the one that imports."""
    named = [next((HERE / "library").glob(f"{number}_*.py")) for number in _TRANSFORMERS]
    return [Program("library", path.stem, "", str(path), "", "", (), "") for path in named]


def _beyond(row: dict[str, Any]) -> float:
    return float(round(row["seconds"] - row["steps"], 2))


def keep(files: list[str]) -> None:
    """Add runs to the evidence: each program that is still there and the times keep their newest run, with its machine."""
    runs = json.loads(EVIDENCE.read_text(encoding="utf-8")) if EVIDENCE.exists() else []
    runs += [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    with tempfile.TemporaryDirectory() as folder:
        known, taken = {program.id for program in programs(Path(folder))}, set[str]()
    for run in reversed(runs):
        run["rows"] = [row for row in run["rows"] if row["id"] in known - taken]
        run["time"] = {} if "time" in taken else run["time"]
        taken |= {row["id"] for row in run["rows"]} | ({"time"} if run["time"] else set())
    EVIDENCE.write_text(json.dumps([run for run in runs if run["rows"] or run["time"]], indent=1) + "\n", encoding="utf-8")


# The figures ----------------------------------------------------------------------------------------------------------


def rows_of(evidence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of all runs."""
    return [row for run in evidence for row in run["rows"]]


def figures(evidence: list[dict[str, Any]], known: list[Program]) -> dict[str, dict[str, Any]]:
    """Return percentages for each set of programs."""
    truth = {program.id: program for program in known}
    results: dict[str, dict[str, Any]] = {}
    for name in _SETS:
        rows = [row for row in rows_of(evidence) if row["set"] == name and row["id"] in truth]
        if rows:
            results[name] = _figures(rows, truth)
    return results


def _figures(rows: list[dict[str, Any]], truth: dict[str, Program]) -> dict[str, Any]:
    wrong = [row for row in rows if truth[row["id"]].truth == "silent_wrong"]
    safe = [row for row in rows if truth[row["id"]].truth == "safe"]
    placed = [row for row in rows if truth[row["id"]].lines and truth[row["id"]].truth != "safe"]
    fails = [row for row in placed if truth[row["id"]].truth == "capture_error"]
    return {
        "programs": len(rows),
        "verdict right": _share(row["verdict"] == truth[row["id"]].truth for row in rows),
        "silent errors caught": _share(row["verdict"] == "silent_wrong" for row in wrong),
        "false alarms": _share(row["verdict"] != "safe" for row in safe),
        "failing line first": _share(_first(row) in truth[row["id"]].lines for row in fails),
        "failing lines right": _share(line in truth[row["id"]].lines for row in fails for line in _observed(row)),
        "wrong line among": _share(bool(_lines(row) & set(truth[row["id"]].lines)) for row in placed if row not in fails),
    }


def _first(row: dict[str, Any]) -> int:
    return next((int(line[0]) for line in row.get("lines", [])), 0)


def _observed(row: dict[str, Any]) -> list[int]:
    """Return the lines that the run itself saw, without those of the static check."""
    return [int(line) for line, _, observed in row.get("lines", []) if observed]


def _lines(row: dict[str, Any]) -> set[int]:
    return {int(line[0]) for line in row.get("lines", [])}


def _share(given: Any) -> float | None:
    answers = [bool(answer) for answer in given]
    return round(100 * sum(answers) / len(answers), 1) if answers else None


def misses(evidence: list[dict[str, Any]], known: list[Program]) -> list[str]:
    """List the programs with a wrong verdict, and those without a right line."""
    truth = {program.id: program for program in known}
    missed = []
    for row in rows_of(evidence):
        program = truth.get(row["id"])
        if program is None:
            continue
        if row["verdict"] != program.truth:
            missed.append(f"{row['id']} ({program.kind}): {row['verdict']}, is {program.truth}: {row.get('said', '')}")
        elif program.lines and program.truth != "safe" and not _lines(row) & set(program.lines):
            missed.append(f"{row['id']} ({program.kind}): lines {sorted(_lines(row))}, is one of {list(program.lines)}")
    return missed


def stale(evidence: list[dict[str, Any]], known: list[Program]) -> list[str]:
    """Return the programs without a row, or with a row of another text."""
    rows = {row["id"]: row["digest"] for row in rows_of(evidence)}
    return [program.id for program in known if rows.get(program.id) != program.digest]


def below(results: dict[str, dict[str, Any]]) -> list[str]:
    """Return the figures that are worse than their floor."""
    import yaml

    floors = yaml.safe_load((HERE / "floors.yaml").read_text(encoding="utf-8"))["verdicts"]
    broken = []
    for name, wanted in floors.items():
        for key, floor in wanted.items():
            value = results[name][key]
            if value is None or (value > floor if key == "false alarms" else value < floor):
                broken.append(f"{name}, {key}: {value}, must be {floor}")
    return broken


def _show(evidence: list[dict[str, Any]], results: dict[str, dict[str, Any]]) -> None:
    for run in evidence:
        print(f"{len(run['rows'])} programs on {', '.join(run['gpus'])}; torch {run['torch']}; {run['date']}")
    for name, row in results.items():
        print(f"{name:9s}", "  ".join(f"{key} {value}" for key, value in row.items()))
    caught = [row for row in rows_of(evidence) if row["set"] == "small" and row["verdict"] == "silent_wrong"]
    sizes = [row["worst"] for row in caught if row["worst"]]
    if sizes:
        print(f"small: off by {min(sizes):.1g} to {max(sizes):.1g}, median {statistics.median(sizes):.1g}, where it is caught")
    for key, values in (item for run in evidence for item in run["time"].items() if item[1]):
        spread = f"{min(values):.2f} to {max(values):.2f}, {len(values)} runs"
        print(f"{key:13s} median {statistics.median(values):.2f} s ({spread})")


def main() -> int:
    """Run `run [BEGINNING]` or `keep FILE ...`, or print the figures."""
    if sys.argv[1:2] == ["run"]:
        print(json.dumps(run("".join(sys.argv[2:3])), indent=1))
        return 0
    if sys.argv[1:2] == ["keep"] and len(sys.argv) > 2:
        keep(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--evidence", type=Path, default=EVIDENCE)
    args = parser.parse_args()
    evidence = json.loads(args.evidence.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        known = programs(Path(folder))
    results = figures(evidence, known)
    _show(evidence, results)
    wrong = below(results) + [f"not run as it is now: {id_}" for id_ in stale(evidence, known)] if args.check else []
    for line in (*wrong, *(misses(evidence, known) if args.misses else [])):
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
