"""Check many files on all cores: each worker process reads one file after the other; answers keep the order of the files.

A worker is a fresh Python with this package and the standard library only: it never imports the program that asked, which need
not be guarded by `if __name__ == "__main__"`, and it may be asked from a process with threads. It takes the place of its file
from a pipe and answers on another. If it dies, the file that it was reading gets a note, and a new one goes on.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from threading import Lock, Thread
from typing import IO, TYPE_CHECKING, Any

from cudagraph_skill.check.findings import Report, Unread
from cudagraph_skill.check.input.targets import Target
from cudagraph_skill.check.reading import read_target
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.check.input.settings import Options

_START = "import sys; sys.path.append(sys.argv[1]); from cudagraph_skill.check import parallel; parallel.work()"
_READY = b"ready"
_MOST = 16  # workers: more do not pay, and each keeps the modules that it has read

Answer = Report | SkillError


def cores() -> int:
    """Return how many workers are worth starting; 1 if this Python cannot start another."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(known, _MOST) if sys.executable else 1


def read_all(targets: list[Target], options: Options, workers: int) -> list[Answer]:
    """Return the report of each target, in order; a file for which no worker could start is read here."""
    pool = _Pool(targets, options)
    threads = [Thread(target=pool.drive, daemon=True) for _ in range(min(workers, len(targets)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:  # an interrupt of the user ends the workers too
        pool.stop()
    return [
        pool.answers[place] if place in pool.answers else read_target(target, options) for place, target in enumerate(targets)
    ]


class _Pool:
    """Hold waiting targets, answers by position, and running processes."""

    def __init__(self, targets: list[Target], options: Options) -> None:
        self.answers: dict[int, Answer] = {}
        self._targets = targets
        self._options = options
        self._waiting: Iterator[int] = iter(range(len(targets)))
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def drive(self) -> None:
        """Give targets to one worker until none is left; start another where it dies."""
        worker = self._started()
        while worker is not None:
            with self._lock:
                place = next(self._waiting, None)
            if place is None or self._stopped:
                break
            answer = _asked(worker, self._targets[place], self._options)
            if answer is None:
                answer = _died(self._targets[place], self._ended(worker))
                worker = self._started()
            self.answers[place] = answer
        if worker is not None:
            self._ended(worker)

    def stop(self) -> None:
        """End what still runs."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for worker in running:
            worker.kill()

    def _started(self) -> subprocess.Popen[bytes] | None:
        """Start a worker and wait until it is ready; None if this machine cannot start one more."""
        plain = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        command = [sys.executable, *plain, "-c", _START, str(Path(__file__).parents[2])]
        with self._lock:
            if self._stopped:
                return None
            try:
                worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            except OSError:  # no memory, no more processes: the others do the work
                return None
            self._running.add(worker)
        if worker.stdout is not None and worker.stdout.read(len(_READY)) == _READY:
            return worker
        worker.kill()
        self._ended(worker)
        return None

    def _ended(self, worker: subprocess.Popen[bytes]) -> int:
        """Close the pipes of a worker, which ends it, and return its exit status."""
        with self._lock:
            self._running.discard(worker)
        for pipe in (worker.stdin, worker.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what could not be written any more
                continue
        return worker.wait()


def _asked(worker: subprocess.Popen[bytes], target: Target, options: Options) -> Answer | None:
    """Return the answer to one target; None if the worker died."""
    if worker.stdin is None or worker.stdout is None:
        return None
    try:
        pickle.dump((Path.cwd(), tuple(target), options), worker.stdin)
        worker.stdin.flush()
        kind, content = pickle.load(worker.stdout)  # noqa: S301 - from our own process
    except (OSError, EOFError, pickle.PickleError):
        return None
    return SkillError(*content) if kind == "error" else Report(*content)


def _died(target: Target, status: int) -> Report:
    how = f"signal {-status} ended the process that read it" if status < 0 else f"the process that read it ended with {status}"
    return Report([], [], [], [Unread(target.path, 1, target.function or "the file", how)])


def work() -> None:
    """Read targets and write answers until the pipe closes."""
    places, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may come through the pipe
    answers.write(_READY)
    answers.flush()
    while True:
        try:
            folder, target, options = pickle.load(places)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        os.chdir(folder)
        _answer(answers, read_target(Target(*target), options))


def _answer(pipe: IO[bytes], answer: Answer) -> None:
    content: Any = (str(answer), answer.exit_code) if isinstance(answer, SkillError) else tuple(answer)
    try:
        pickle.dump(("error" if isinstance(answer, SkillError) else "report", content), pipe)
        pipe.flush()
    except OSError:  # nobody waits any more
        sys.exit()
