"""Whether the pack helps an assistant: tasks for agents with and without it, graded on a GPU.

    python evals/run.py list                                 the tasks, each with its trap
    python evals/run.py json > evals/evals.json              the same for tools that read the Agent Skills guide's file
    python evals/run.py run FOLDER [TASK ...] --agent 'COMMAND'
                                                             start COMMAND on each task, with and without the pack; --times 3
    python evals/run.py grade FOLDER ...                     on a GPU machine, with torch: grade what was handed in
    python evals/run.py table FOLDER ...                     the figures, as Markdown
    python evals/run.py keep FOLDER ... > FILE               all of it as one file: runs, grades, and what was handed in
    python evals/run.py lay FILE FOLDER                      a folder of such a file, to grade again

COMMAND is any program, with {prompt} and {folder} in the place of what it is told and where it works, such as
`claude -p {prompt} --output-format stream-json --verbose`; it is started without a shell. FOLDER is outside of this repository,
which has the solutions. It gets `runs.jsonl` and `grades.jsonl`, a row as each run ends: what has its row is not done again.
`grade` takes also a single folder with a submission, with `--task NAME`, and prints its row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tools"), str(HERE)]

import grading  # noqa: E402
import suite  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS, _GRADES = "runs.jsonl", "grades.jsonl"
_KEY = ("task", "digest", "agent", "pack", "number")


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; a last line that was cut off is none."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _add(path: Path, row: dict[str, Any]) -> None:
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut_off + json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _KEY)


def place_of(folder: Path, row: dict[str, Any]) -> Path:
    """Return the folder of one run."""
    return Path(folder, row["agent"], row["task"], f"{'with' if row['pack'] else 'without'}-{row['number']}")


# Run ------------------------------------------------------------------------------------------------------------------


def planned(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield each run that is asked for, the ways of a task in turns."""
    packs = {"both": (True, False), "with": (True,), "without": (False,)}[args.pack]
    for number in range(1, args.times + 1):
        for name in args.tasks or suite.names():
            for pack in packs:
                digest = suite.task(name).digest
                yield {"task": name, "digest": digest, "agent": args.name, "pack": pack, "number": number}


def run(args: argparse.Namespace) -> int:
    """Start the agent as often as is asked for and not yet done."""
    import agent

    folder = args.folder.resolve()
    if unknown := sorted(set(args.tasks) - set(suite.names())):
        sys.exit(f"no task is named {', '.join(unknown)}; there are {', '.join(suite.names())}")
    if folder == ROOT or ROOT in folder.parents:
        sys.exit(f"{folder} is in this repository, where an agent finds the solutions: name a folder outside of it")
    if "{prompt}" not in args.agent and "{folder}" not in args.agent:
        sys.exit("the command has neither {prompt} nor {folder}: the agent would not know its task")
    folder.mkdir(parents=True, exist_ok=True)
    done = {_key(row) for row in rows(folder / _RUNS)}
    for row in planned(args):
        if _key(row) not in done:
            ended = agent.start(suite.task(row["task"]), place_of(folder, row), args.agent, row["pack"], args.minutes)
            _add(folder / _RUNS, {**row, "command": args.agent, **ended})
    return 0


# Grade ----------------------------------------------------------------------------------------------------------------


def grade(args: argparse.Namespace) -> int:
    """Grade each run that has no grade yet, or one submission."""
    drawn: dict[str, grading.Expected] = {}  # of each task, for all submissions to it
    if args.task:
        found = [grading.grade(suite.task(args.task), folder.resolve(), args.device, drawn) for folder in args.folders]
        print("\n".join(map(json.dumps, found)))
        return int(not all(row["passed"] for row in found))
    ungraded = 0
    for folder in args.folders:
        done = {_key(row) for row in rows(folder / _GRADES)}
        for row in rows(folder / _RUNS):
            task = suite.task(row["task"])
            if _key(row) in done:
                continue
            if row["digest"] != task.digest:
                print(f"{place_of(folder, row)} is of another version of {task.name}: not graded", file=sys.stderr)
                continue
            try:
                graded = grading.grade(task, (place_of(folder, row) / "work").resolve(), args.device, drawn)
            except RuntimeError as error:  # the program itself does not run on this machine
                ungraded += 1
                print(error, file=sys.stderr)
                continue
            _add(folder / _GRADES, {**graded, **{name: row[name] for name in _KEY}})
    return int(ungraded > 0)


# Keep -----------------------------------------------------------------------------------------------------------------


def kept(folders: list[Path]) -> dict[str, Any]:
    """Return runs with what was handed in ("" for nothing), and their grades."""
    runs = [
        {**row, "handed_in": path.read_text(encoding="utf-8") if path.is_file() else ""}
        for folder in folders
        for row in rows(folder / _RUNS)
        for path in [place_of(folder, row) / "work" / suite.task(row["task"]).hands_in]
    ]
    return {"runs": runs, "grades": [row for folder in folders for row in rows(folder / _GRADES)]}


def lay(file: Path, folder: Path) -> None:
    """Write a folder as `run` and `grade` leave it, from a file of `keep`."""
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
        places = [place_of(folder, row).resolve() for row in given["runs"] if suite.task(row["task"]) and row["handed_in"] + ""]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{file} is no file of `keep` ({type(error).__name__}: {error}): name one that it printed")
    if outside := [place for place in places if folder.resolve() not in place.parents]:
        sys.exit(f"{file} names a run that would lie outside of {folder}, in {outside[0]}: nothing was written")
    for row in given["runs"]:
        text, work = row.pop("handed_in"), place_of(folder, row) / "work"
        suite.lay_out(suite.task(row["task"]), work)
        if text:
            (work / suite.task(row["task"]).hands_in).write_text(text, encoding="utf-8")
        _add(folder / _RUNS, row)
    for row in given["grades"]:
        _add(folder / _GRADES, row)


# Table ----------------------------------------------------------------------------------------------------------------


def joined(folders: list[Path]) -> list[dict[str, Any]]:
    """Return each graded run with its grade; minutes and calls are the run's."""
    found = []
    for folder in folders:
        graded = {_key(row): row for row in rows(folder / _GRADES)}
        found += [{**graded[_key(row)], **row} for row in rows(folder / _RUNS) if _key(row) in graded]
    return found


def _spread(values: list[float], digits: int = 2) -> str:
    """Return the median, with the least and the most where there are several."""
    if not values:
        return "-"
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _line(first: str, given: list[dict[str, Any]]) -> str:
    def of(name: str, only: str = "") -> list[float]:
        return [row[name] for row in given if row.get(name) is not None and (not only or row["verdict"] == only)]

    tokens = [(row["tokens_in"] + row["tokens_out"]) / 1000 for row in given if row.get("tokens_in") is not None]
    right, passed = (sum(map(bool, found)) for found in ([row["verdict"] == "right" for row in given], of("passed")))
    cells = [
        first,
        "yes" if given[0]["pack"] else "no",
        f"{passed} of {len(given)}",
        f"{right} of {len(given)}",
        _spread(of("ratio", "right")),
        _spread(of("us", "right"), 0),
        _spread(of("memory", "right")),
        _spread(of("minutes"), 1),
        _spread(of("calls"), 0),
        _spread(tokens, 0),
    ]
    return f"| {' | '.join(cells)} |"


def table(given: list[dict[str, Any]]) -> str:
    """Return figures by task, and of all tasks, for each agent."""
    figures = ["time of eager", "us a step", "memory of eager", "minutes", "calls", "thousand tokens"]
    head = ["task", "pack", "passed", "right", *figures]
    lines = []
    for agent in sorted({row["agent"] for row in given}):
        lines += [f"### {agent}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        own = [row for row in given if row["agent"] == agent]
        for task in [*sorted({row["task"] for row in own}), ""]:
            for pack in (False, True):
                chosen = [row for row in own if row["pack"] == pack and task in {row["task"], ""}]
                lines += [_line(task or "all", chosen)] if chosen else []
        missed = [
            f"- {row['task']} {'with' if row['pack'] else 'without'} the pack, {row['number']}: {row['verdict']}: {row['said']}"
            for row in own
            if row["verdict"] != "right"
        ]
        lines += ["", *missed, *([""] if missed else [])]
    gpus = sorted({f"{row['gpu']}, torch {row['torch']}" for row in given if row.get("gpu")})
    note = "Median, with the least and the most of several runs; time and memory are those of right submissions."
    return "\n".join([*lines, " ".join([note, *(f"Graded on {gpu}." for gpu in gpus)])])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("json", help="the tasks as evals/evals.json has them")
    start = commands.add_parser("run")
    start.add_argument("folder", type=Path)
    start.add_argument("tasks", nargs="*", metavar="TASK", help="tasks to do; all if none is named")
    start.add_argument("--agent", required=True, help="the command, with {prompt} and {folder}")
    start.add_argument("--name", default="agent", help="what the agent is called in the table")
    start.add_argument("--pack", choices=["both", "with", "without"], default="both")
    start.add_argument("--times", type=int, default=3)
    start.add_argument("--minutes", type=float, default=30, help="deadline of one run")
    score = commands.add_parser("grade")
    score.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    score.add_argument("--task", choices=suite.names(), help="each FOLDER is one submission to this task")
    score.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu only shows that a submission runs")
    for name in ("table", "keep"):
        commands.add_parser(name).add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    back = commands.add_parser("lay")
    back.add_argument("file", type=Path)
    back.add_argument("folder", type=Path, help="a new folder")
    args = parser.parse_args()
    if args.command == "lay" and args.folder.exists():
        parser.error(f"{args.folder} is there already: name a new folder")
    if args.command == "run" and args.times < 1:
        parser.error(f"--times {args.times} starts no agent: give 1 or more")
    of_runs = args.folders if args.command in {"table", "keep"} or (args.command == "grade" and not args.task) else []
    for folder in of_runs:
        if not (folder / _RUNS).exists():
            parser.error(f"{folder} has no {_RUNS}: name a folder that `run` has filled")
    return args


def main() -> int:
    """Run the command that is named."""
    args = _arguments()
    if args.command == "list":
        for name in suite.names():
            task = suite.task(name)
            print(f"{name} ({task.hands_in})\n    {' '.join(task.trap.split())}\n")
        return 0
    if args.command == "json":
        print(json.dumps(suite.convention(), indent=1))
        return 0
    if args.command == "keep":
        print(json.dumps(kept(args.folders), indent=1))
        return 0
    if args.command == "lay":
        lay(args.file, args.folder)
        return 0
    if args.command == "table":
        found = joined(args.folders)
        print(table(found))
        if lost := sum(len(rows(folder / _RUNS)) for folder in args.folders) - len(found):
            print(f"Not in the table, as they have no grade: {lost} runs.")
        return 0
    return run(args) if args.command == "run" else grade(args)


if __name__ == "__main__":
    sys.exit(main())
