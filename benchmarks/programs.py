"""How often `skill check --run --target` is right about calls in public programs that nobody here wrote.

    python benchmarks/programs.py bring FOLDER                     the commands that bring the repositories of programs.json
    python benchmarks/programs.py pack FOLDER                      copies the listed files from there to .gpu/programs
    python benchmarks/programs.py run [NAME ...] > out.jsonl       on a GPU machine, with torch and the packages: the verdicts
    python benchmarks/programs.py truth [NAME ...] > truth.jsonl   there as well: a plain comparison of each call
    python benchmarks/programs.py keep FILE ...                    back here: adds both to benchmarks/evidence/programs.json
    python benchmarks/programs.py                                  the figures of that evidence; --misses names what was wrong

programs.json names each program by repository and commit, the command that runs it, and three targets with what a person who
read the program expects, the line that must be named first, and why. `expect` has each verdict that would be right. Programs
are run as they are: small by their arguments, on data that programs_data.py writes, offline. NAME may be the beginning of a
name. Programs without their packages are left out.

The truth has nothing of our tools (programs_lockstep.py): the program runs four times from one seed, with the six calls that
follow the first three eager, again, moved by one in the last place, and replayed from a graph. The labels are those of
library.py, and `few` where the calls were too few, `unclear` where nothing can be compared. A call is `noisy` here too where
the program gives it the time: the tool, which records the arguments, can still be right about it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import library

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests"))

import on_gpu  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EVIDENCE = HERE / "evidence" / "programs.json"
PACKED = ROOT / ".gpu" / "programs"
VERDICTS = ("safe", "capture_error", "silent_wrong", "not_repeatable", "error_in_eager", "misuse", "lacking")
_WAYS = ("eager", "again", "moved", "graph")
_AT_ONCE, _SECONDS, _PATIENCE_SECONDS = max(2, (os.cpu_count() or 8) * 2 // 3), 120, 180
_LARGEST, _EQUAL = 6 << 20, 1e-4
_AS_VERDICT = {"few": "misuse"}  # what a verdict must be where the truth has another word
_UNSAFE = ("silent_wrong", "capture_error")
_DECIDED = ("safe", "silent_wrong", "capture_error", "few")


# The programs ---------------------------------------------------------------------------------------------------------


def programs(beginnings: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the programs, or those whose names begin so."""
    wanted = tuple(beginnings) or ("",)
    listed: list[dict[str, Any]] = json.loads((HERE / "programs.json").read_text(encoding="utf-8"))
    return [program for program in listed if program["name"].startswith(wanted)]


def place(folder: Path, program: dict[str, Any]) -> Path:
    """Return where the repository of a program is to lie."""
    return folder / str(program["repository"]).replace("/", "+")


def ways_to_bring(folder: Path) -> list[str]:
    """Return the commands that bring the repositories which are not there."""
    absent = {place(folder, each): each for each in programs() if not place(folder, each).is_dir()}
    return [
        f"git clone https://github.com/{each['repository']} {target} && git -C {target} checkout {each['commit']}"
        for target, each in absent.items()
    ]


def pack(folder: Path) -> int:
    """Copy the listed files; return their size in bytes."""
    size = 0
    for program in programs():
        for path in program["files"]:
            target = place(PACKED, program) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place(folder, program) / path, target)
            size += target.stat().st_size
    return size


def _there(names: list[str]) -> list[dict[str, Any]]:
    """Return the chosen programs whose packages are installed; say which others there are."""
    chosen = programs(names)
    absent = [each for each in chosen if not all(map(on_gpu.release, each["needs"]))]
    for each in absent:
        print(f"left out: {each['name']} needs {', '.join(each['needs'])}", file=sys.stderr)
    return [each for each in chosen if each not in absent]


def _prepared(chosen: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Copy the programs and write their data, several at once; return their cases, each with the copy."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda program: _prepare(program, folder / program["name"]), chosen))
    return [
        {**program, "copy": folder / program["name"], "case": case, "id": f"{program['name']} {case['target']}"}
        for program in chosen
        for case in program["cases"]
    ]


def _prepare(program: dict[str, Any], copy: Path) -> None:
    shutil.copytree(place(PACKED, program), copy)
    if program["prepare"]:
        command = [sys.executable, str(HERE / "programs_data.py"), program["prepare"], str(copy)]
        subprocess.run(command, cwd=copy, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _command(program: dict[str, Any]) -> list[str]:
    return [sys.executable, *program["command"][1:]]


def _environment(program: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a program; relative paths in it are of its folder, which is where it runs."""
    fixed = {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", "PYTHONHASHSEED": "0"}  # a set of words has one order
    return {**os.environ, **fixed, **program["environment"]}


# The truth ------------------------------------------------------------------------------------------------------------


def truth(chosen: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Observe each case in its four ways, several at once, and compare them; yield in the order in which cases are done."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        cases = _prepared(chosen, Path(folder))
        done = [pool.submit(_observed, case, number, Path(folder)) for number, case in enumerate(cases)]
        for each in as_completed(done):
            yield each.result()


def _observed(case: dict[str, Any], number: int, folder: Path) -> dict[str, Any]:
    start = time.monotonic()
    seen: dict[str, dict[str, Any]] = {}
    for way in _WAYS:
        seen[way] = _seen(case, way, folder / f"{number}.{way}")
        if way == "eager" and seen[way]["error"]:
            break
    return {"id": case["id"], **_judged(seen), "seconds": round(time.monotonic() - start, 1)}


def _seen(case: dict[str, Any], way: str, folder: Path) -> dict[str, Any]:
    """Return what a process wrote; how it ended where it wrote nothing."""
    import torch

    copy, into = folder / "copy", folder / "seen.pt"
    shutil.copytree(case["copy"], copy)
    lockstep = [str(HERE / "programs_lockstep.py"), way, str(copy), case["case"]["target"], str(into)]
    command = [sys.executable, *lockstep, "--", *_command(case)]
    said, code = _ended(command, copy / case["folder"], _environment(case))
    shutil.rmtree(copy)
    if into.exists():
        seen: dict[str, Any] = torch.load(into, weights_only=False)
        return seen
    error = {"stage": "unknown", "type": f"exit {code}", "said": said[-200:], "line": None, "deepest": ""}
    return {"results": [], "held": {}, "error": error, "calls": 0, "live": True}


def _ended(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[str, int | None]:
    """Return the output of a command and its exit code, None where it did not end in time."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code: int | None = process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out.seek(0)
        return out.read().decode(errors="replace"), code


def _judged(seen: dict[str, dict[str, Any]]) -> dict[str, Any]:
    first = seen["eager"]
    about, failed = {"calls": first["calls"], "live": first["live"]}, first["error"]
    if failed:
        label = "few" if failed["stage"] == "few" else "unclear" if failed["type"] == "UnclearError" else "error_in_eager"
        return {**about, "label": label, **failed}
    if not any((*first["results"], first["held"])) and not seen["graph"]["error"]:
        return {**about, "label": "unclear", "said": "no result and no tensor to compare"}
    passed: list[dict[str, Any]] = [{}] * library.WARM
    row = library.judged({way: {**each, "results": passed + each["results"]} for way, each in seen.items()})
    if row["label"] == "chaotic" and row["graph"] <= _EQUAL:
        row["label"] = "safe"  # a program that samples goes another way when it is moved; the graph went the same way
    return {**about, **row}


# The tool -------------------------------------------------------------------------------------------------------------


def run(chosen: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Let `skill check --run --target` examine each case, several at once."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        cases = _prepared(chosen, Path(folder))
        for examined in as_completed([pool.submit(_examined, case, number, Path(folder)) for number, case in enumerate(cases)]):
            yield examined.result()


def _examined(case: dict[str, Any], number: int, folder: Path) -> dict[str, Any]:
    copy = folder / f"{number}"
    shutil.copytree(case["copy"], copy)
    options = ["--run", "--json", "--deadline", str(_SECONDS), "--target", case["case"]["target"]]
    tool = [sys.executable, str(ROOT / "tools" / "check.py"), *options, "--", *_command(case)]
    start = time.monotonic()
    try:
        done = subprocess.run(
            tool,
            cwd=copy / case["folder"],
            env=_environment(case),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        report: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        report = {"verdict": "none", "summary": type(error).__name__}
    shutil.rmtree(copy)
    found = report.get("findings", [])[:5]
    return {
        "id": case["id"],
        "verdict": report.get("verdict") or ("misuse" if "error" in report else "none"),
        "lines": [[f"{Path(item['path']).name}:{item['line']}", item["id"], item["observed"]] for item in found],
        "seconds": round(time.monotonic() - start, 1),
        "said": str(report.get("summary") or report.get("error", "")).replace(f"{copy}/", "")[:300],
        "notes": [note.replace(f"{copy}/", "")[:200] for note in report.get("notes", [])][:3],
    }


# The figures ----------------------------------------------------------------------------------------------------------


def rows_of(evidence: list[dict[str, Any]], what: str) -> dict[str, dict[str, Any]]:
    """Return the rows of `truth` or `run` by case, without those of cases that are no more."""
    known = expected()
    return {row["id"]: row for part in evidence if part["what"] == what for row in part["rows"] if row["id"] in known}


def expected() -> dict[str, dict[str, Any]]:
    """Return what is expected of each case."""
    return {f"{program['name']} {case['target']}": case for program in programs() for case in program["cases"]}


def figures(evidence: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many cases there are, and percentages of the verdicts: against the truth, and against what was expected."""
    verdicts, true, read = rows_of(evidence, "run"), rows_of(evidence, "truth"), expected()
    known = [(row["label"], verdicts[name]) for name, row in true.items() if name in verdicts and row["label"] in _DECIDED]
    fails = [(true[name]["line"], row) for name, row in verdicts.items() if _failing(true.get(name))]
    named = [(read[name]["line"], row) for name, row in verdicts.items() if read[name]["line"]]
    return {
        "cases": len(verdicts),
        "with a truth": len(known),
        "as expected": library.share(row["verdict"] in read[name]["expect"] for name, row in verdicts.items()),
        "as in truth": library.share(row["verdict"] == _AS_VERDICT.get(label, label) for label, row in known),
        "false alarms": library.share(
            row["verdict"] in {"silent_wrong", "capture_error"} for label, row in known if label == "safe"
        ),
        "missed": library.share(row["verdict"] == "safe" for label, row in known if label in _UNSAFE),
        "failing line first": library.share(_first(row) == line for line, row in fails),
        "expected line named": library.share(line in [each[0] for each in row["lines"]] for line, row in named),
        "seconds, mean": round(sum(row["seconds"] for row in verdicts.values()) / max(len(verdicts), 1), 1),
    }


def _failing(row: dict[str, Any] | None) -> bool:
    return bool(row and row["label"] == "capture_error" and row["line"])


def _first(row: dict[str, Any]) -> str:
    return next((str(line[0]) for line in row["lines"]), "")


def misses(evidence: list[dict[str, Any]]) -> list[str]:
    """List the cases in which verdict, truth and expectation are not one, and failing captures with another first line."""
    verdicts, true, missed = rows_of(evidence, "run"), rows_of(evidence, "truth"), []
    for name, case in expected().items():
        row, seen = verdicts.get(name), true.get(name)
        label = seen["label"] if seen else "none"
        verdict = row["verdict"] if row else "none"
        right = _AS_VERDICT.get(label, label) if label in _DECIDED else ""
        if (row and verdict not in case["expect"]) or (row and right and verdict != right):
            missed.append(f"{name}: {verdict}, truth {label}, expected {' or '.join(case['expect'])}: {row['said']}")
        elif right and right not in case["expect"]:
            missed.append(f"{name}: truth {label}, expected {' or '.join(case['expect'])}: {(seen or {}).get('said', '')}")
        elif row and seen and _failing(seen) and _first(row) != seen["line"]:
            missed.append(f"{name}: line {_first(row)} first, is {seen['line']}: {seen['deepest']}")
    return missed


def _about(what: str, names: list[str], chosen: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the run is, and its machine with the releases of the packages."""
    packages = {name: on_gpu.release(name) for name in sorted({name for each in chosen for name in each["needs"]})}
    return {"what": what, **on_gpu.machine(" ".join(["python benchmarks/programs.py", what, *names])), "packages": packages}


def main() -> int:
    """Run `bring`, `pack`, `run`, `truth` or `keep`, or print the figures."""
    os.environ.setdefault("OMP_NUM_THREADS", "2")  # several processes share the machine
    match sys.argv[1:]:
        case ["bring", folder]:
            print("\n".join(ways_to_bring(Path(folder))))
            return 0
        case ["pack", folder]:
            size = pack(Path(folder))
            print(f"{size} bytes in {PACKED.relative_to(ROOT)}")
            return int(size > _LARGEST)
        case ["run" | "truth" as what, *names]:
            chosen = _there(names)
            on_gpu.write_rows(_about(what, names, chosen), (truth if what == "truth" else run)(chosen))
            return 0
        case ["keep", _, *_]:
            library.keep(sys.argv[2:], EVIDENCE)
            return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--evidence", type=Path, default=EVIDENCE)
    args = parser.parse_args()
    if not args.evidence.exists():
        print(f"{args.evidence} is not there yet: `run` and `truth` on a GPU machine, then `keep`", file=sys.stderr)
        return 2
    evidence = json.loads(args.evidence.read_text(encoding="utf-8"))
    for part in evidence:
        print(f"{part['what']}: {len(part['rows'])} cases on {', '.join(part['gpus'])}; torch {part['torch']}; {part['date']}")
    print("\n".join(f"{key:24s} {value}" for key, value in figures(evidence).items()))
    print("\n".join(misses(evidence) if args.misses else []))
    return 0


if __name__ == "__main__":
    sys.exit(main())
