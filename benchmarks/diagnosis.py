"""How often `skill errors` names the cause of a real report: this engine, its messages alone and its words alone.

    python benchmarks/diagnosis.py                    the table for all logs
    python benchmarks/diagnosis.py --split test       only those that were not looked at while the engine was tuned
    python benchmarks/diagnosis.py --split test --check   exit 1 if the engine falls below a floor in floors.yaml
    python benchmarks/diagnosis.py --misses           what was named instead

Each case of `logs.yaml` is made after a public report: the program's own messages as they were printed, what the reporter said
about it restated. It has a cause, causes that are right as well (`also`), and patterns of which one must occur in the answer
for its fix to be right. A case without a cause is foreign: it must be declined.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from cudagraph_skill.diagnosis import output as diagnosed
from cudagraph_skill.diagnosis.entries import Table, open_table
from cudagraph_skill.diagnosis.rank import diagnose
from cudagraph_skill.paths import skill_root
from cudagraph_skill.text import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
STEPS = Steps(read=str, turn=str, ask=str, explain=str)


def load(path: Path = HERE / "logs.yaml") -> list[dict[str, Any]]:
    """Read the cases; the head of the file describes their form."""
    cases: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return cases


def messages_alone(index: Table) -> Table:
    """Return the index without the tells of causes, so that each message names its likeliest cause."""
    bare = {slug: cause._replace(tells=(), words={}, rest=0.0) for slug, cause in index.causes.items()}
    return index._replace(causes=bare)


def words_alone(index: Table) -> Table:
    """Return the index without messages and tells, so that only similar words count."""
    bare = {slug: cause._replace(tells=()) for slug, cause in index.causes.items()}
    return index._replace(entries=(), causes=bare)


def score(cases: list[dict[str, Any]], index: Table, miss: Callable[[str], None] = lambda _: None) -> dict[str, float]:
    """Return shares in per cent: first, in three, fix in the first answer, declined; and refused of foreign logs."""
    real = [case for case in cases if case["cause"]]
    foreign = [case for case in cases if not case["cause"]]
    counts = dict.fromkeys(("first", "three", "fix", "declined", "refused"), 0)
    for case in cases:
        diagnoses = json.loads(diagnosed.verdict_json(diagnose(case["log"], index), STEPS))["diagnoses"]
        named = [diagnosis["cause"] for diagnosis in diagnoses]
        if not case["cause"]:
            counts["refused"] += not diagnoses
            if diagnoses:
                miss(f"{case['id']}: foreign, but named {named[0]}")
            continue
        right = {case["cause"], *case.get("also", [])}
        first = named[:1] != [] and named[0] in right
        counts["first"] += first
        counts["three"] += bool(right & set(named[:3]))
        answer = json.dumps(diagnoses[:1], ensure_ascii=False)
        fixed = first and any(re.search(form, answer, re.IGNORECASE | re.DOTALL) for form in case["fix"])
        counts["fix"] += fixed
        counts["declined"] += not diagnoses
        if not first:
            miss(f"{case['id']} ({case['kind']}): {sorted(right)}, named {named}")
        elif not fixed:
            miss(f"{case['id']} ({case['kind']}): {named[0]} is right, its fix lacks {case['fix']}")
    sizes = {name: len(foreign) if name == "refused" else len(real) for name in counts}
    return {name: 100 * count / max(1, sizes[name]) for name, count in counts.items()}


def main() -> int:
    """Print the table; the exit code is 1 if --check found a floor broken."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--split", choices=("dev", "test"))
    options.add_argument("--check", action="store_true")
    options.add_argument("--misses", action="store_true")
    args = options.parse_args()
    cases = [case for case in load() if args.split in (None, case["split"])]
    index = open_table(skill_root())
    if args.misses:
        score(cases, index, print)
    rows = {"skill errors": index, "messages alone": messages_alone(index), "words alone": words_alone(index)}
    print(f"{len(cases)} logs, {sum(not case['cause'] for case in cases)} of them foreign")
    print(f"{'':16}{'first':>8}{'three':>8}{'fix':>8}{'declined':>10}{'refused':>9}")
    scores = {name: score(cases, table) for name, table in rows.items()}
    for name, row in scores.items():
        print(
            f"{name:16}{row['first']:7.1f}%{row['three']:7.1f}%{row['fix']:7.1f}%{row['declined']:9.1f}%{row['refused']:8.1f}%"
        )
    ours = scores["skill errors"]
    print("by kind of log, first and in three:")
    for kind in ("trace", "condensed", "words"):
        part = score([case for case in cases if case["kind"] == kind and case["cause"]], index)
        print(f"{kind:16}{part['first']:7.1f}%{part['three']:7.1f}%")
    floors = yaml.safe_load((HERE / "floors.yaml").read_text())["diagnosis"]
    broken = [f"{name} is {ours[name]:.1f}, its floor is {floor}" for name, floor in floors.items() if ours[name] < floor]
    if args.check and broken:
        print("\n".join(broken), file=sys.stderr)
    return int(args.check and bool(broken))


if __name__ == "__main__":
    sys.exit(main())
