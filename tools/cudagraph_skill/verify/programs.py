"""Run small programs in the user's interpreter, several at once, each in an empty folder and under a deadline."""

from __future__ import annotations

import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.scaffold import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_AT_ONCE = 8  # processes; each has a CUDA context of half a gigabyte
_DEVICE = "import os, torch; torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
_NEED = re.compile(r"(?P<package>[a-z-]+)(?P<how>[>=]=)(?P<version>[\d.]+)|gpus=(?P<gpus>\d+)|(?P<name>[a-z-]+)")


class Machine(NamedTuple):
    """The interpreter that runs programs, the releases that it has by package, and its GPUs; `shown` names all of it."""

    python: str
    packages: Mapping[str, str]
    gpus: int
    shown: str


class Program(NamedTuple):
    """A program: its code and arguments; `needs` is what it asks for beyond one GPU, as `torch>=2.13, gpus=2`."""

    name: str
    code: str
    arguments: Sequence[str] = ()
    needs: str = ""


class Ended(NamedTuple):
    """A program that ended: `how` is "" for exit code 0, else as "ended with exit code 1"; the tail of its output."""

    program: Program
    how: str
    output: str


def lacks(machine: Machine, needs: str) -> str:
    """Return what of `needs` this machine does not have, "" for nothing."""
    return ", ".join(need[0] for need in _NEED.finditer(needs) if not _has(machine, need))


def _has(machine: Machine, need: re.Match[str]) -> bool:
    if need["gpus"]:
        return machine.gpus >= int(need["gpus"])
    there = machine.packages.get(need["package"] or need["name"], "")
    if need["how"] == ">=":
        return _release(there) >= _release(need["version"])
    return there == need["version"] if need["how"] else bool(there)


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def ended(
    programs: Sequence[Program], machine: Machine, deadline: float, cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Ended]:
    """Run all programs; yield each as it ends, and none after a cancel.

    Raises:
        SkillError: The interpreter cannot be started (exit code 3).
    """
    stop = Event()

    def run(program: Program) -> Ended:
        return _run(program, machine, deadline, lambda: stop.is_set() or cancelled())

    with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
        try:
            for future in as_completed([pool.submit(run, program) for program in programs]):
                if cancelled():
                    return
                yield future.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _run(program: Program, machine: Machine, deadline: float, cancelled: Callable[[], bool]) -> Ended:
    several = next((need["gpus"] for need in _NEED.finditer(program.needs) if need["gpus"]), "")
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={several}"] if several else []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")  # a file, because Triton reads the source of a function
        script.write_text(_DEVICE * bool(several) + program.code, encoding="utf-8")
        command = [machine.python, *torchrun, str(script), *program.arguments]
        ran = process.run(command, Path(folder, "report"), deadline=deadline, folder=folder, cancelled=cancelled)
    return Ended(program, ran.ended, ran.output)
