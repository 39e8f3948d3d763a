"""How fast look-ups are, as ratios in one run: cold commands beside a bare Python, warm queries beside SQLite FTS5, large logs.

    python benchmarks/speed.py            with the interpreter that has the package installed

Cold is process start to answer with the page cache warm, interleaved with `python -c pass` of the same interpreter. Warm is one
process asking every benchmark question. Ten times is the corpus and nine copies of it with 3 % of the words changed.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.corpus import load as corpus
from cudagraph_skill.corpus.index import open_index
from cudagraph_skill.diagnosis.entries import open_table
from cudagraph_skill.diagnosis.rank import diagnose
from cudagraph_skill.paths import skill_root
from retrieval import fts5, load

if TYPE_CHECKING:
    from collections.abc import Callable

_COLD_RUNS, _FIRST_RUNS = 40, 5


def cold(commands: dict[str, list[str]]) -> dict[str, list[float]]:
    """Time whole processes in ms; the commands take turns, so that a slow minute of the machine affects all of them."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(_COLD_RUNS + 3):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            if turn >= 3:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def first(command: list[str]) -> list[float]:
    """Time a command with an empty cache folder, in ms."""
    times = []
    for _ in range(_FIRST_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "CUDAGRAPH_SKILL_CACHE": folder}
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=environment)
            times.append((time.perf_counter() - start) * 1e3)
    return times


def warm(ask: Callable[[str], object], questions: list[str]) -> list[float]:
    """Time each question once in an open process, in ms: nothing that it needs was read before."""
    ask("a first question, which opens files")
    times = []
    for question in questions:
        start = time.perf_counter()
        ask(question)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def copies(folder: Path, number: int) -> Path:
    """Copy the references `number` times with 3 % new words, so that the vocabulary grows realistically."""
    dice = random.Random(0)
    for path in (skill_root() / "references").glob("*.md"):
        words = path.read_text(encoding="utf-8").split(" ")
        for copy in range(number):
            changed = [f"{word}{dice.randrange(99)}" if word.isalpha() and dice.random() < 0.03 else word for word in words]
            (folder / f"{path.stem}-{copy}.md").write_text(" ".join(changed), encoding="utf-8")
    return folder


def logs() -> dict[str, str]:
    """Make logs of 5 MB: eight ranks that train and fail, the same on one line, and words that may each begin a phrase."""
    dice = random.Random(0)
    words = "cuda error stream capture graph replay memory tensor kernel rank nccl step loss backward".split()
    lines = [f"[rank{n % 8}]: step {n} {' '.join(dice.choices(words, k=8))} {dice.random():.4f}" for n in range(65_000)]
    training = "\n".join([*lines, "torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing"])
    return {
        "5 MB": training,
        "5 MB on a line": training.replace("\n", " "),
        "5 MB repeated": "skipping cudagraphs due to " * 185_000,
    }


def show(name: str, times: list[float], base: float = 0) -> None:
    """Format a row: median, 99th percentile, and the ratio of the medians if there is a base."""
    middle, high = statistics.median(times), sorted(times)[int(len(times) * 0.99)]
    print(f"{name:<38}{middle:>10.2f}{high:>10.2f}{f'{middle / base:>8.1f}x' if base else '':>9}")


def main() -> None:
    """Print the table."""
    skill = [str(Path(sys.executable).parent / "skill"), "search", "capture fails in backward but not in forward"]
    subprocess.run(skill, stdout=subprocess.DEVNULL, check=True)  # the index is built once; that is not what is timed
    print(f"Python {platform.python_version()}, {platform.machine()}, {_COLD_RUNS} cold runs; milliseconds")
    print(f"{'':<38}{'p50':>10}{'p99':>10}{'ratio':>9}")
    errors = [skill[0], "errors", "CUDA error: capturing stream has unjoined work"]
    subprocess.run(errors, stdout=subprocess.DEVNULL, check=True)
    clone = [sys.executable, "-S", str(Path(__file__).resolve().parent.parent / "tools" / "search.py"), *skill[2:]]
    subprocess.run(clone, stdout=subprocess.DEVNULL, check=True)
    times = cold({"bare": [sys.executable, "-c", "pass"], "skill": skill, "clone": clone, "errors": errors})
    bare = statistics.median(times["bare"])
    show("python -c pass", times["bare"], bare)
    show("skill search, cold", times["skill"], bare)
    show("the same from a bare clone", times["clone"], bare)
    show("skill errors, one line, cold", times["errors"], bare)
    show("skill search, nothing built yet", first(skill), bare)
    show("the same from a bare clone", first(clone), bare)
    show("skill errors, nothing built yet", first(errors), bare)
    table = open_table(skill_root())
    for name, log in logs().items():
        show(f"skill errors, {name}, warm", warm(partial(diagnose, index=table), [log] * 5))
    questions = [item["question"] for item in load()]
    index = open_index(skill_root())
    show("skill search, warm", warm(index.search, questions))
    show("SQLite FTS5, warm", warm(fts5(index.sections()), questions))
    with tempfile.TemporaryDirectory() as folder:
        docs = corpus.documents(skill_root(), copies(Path(folder), 9))
        start = time.perf_counter()
        large = open_index(skill_root(), Path(folder))
        built = time.perf_counter() - start
        sections = large.sections()
        show(f"skill search, {len(sections)} sections", warm(large.search, questions))
        show(f"SQLite FTS5, {len(sections)} sections", warm(fts5(sections), questions))
        print(f"index of {len(docs)} files built in {built:.1f} s")


if __name__ == "__main__":
    main()
