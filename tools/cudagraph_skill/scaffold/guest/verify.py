"""Runs the checks of a scaffolded program in the user's interpreter; each result is written down as it comes.

    python verify.py FILE --report PATH

FILE is imported as a module and its `main()` called, which runs its `parity()`, `rollback()` and `timing()`. After that, and only
then, because a profiler slows the process that it once ran in, a replay is measured beside what of it the GPU was busy. PATH gets
a line of JSON for each event. This file is run as it lies and imports nothing of ours: torch and Python 3.10 are all it needs.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import gc
import hashlib
import importlib.util
import inspect
import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CHECKS = ("parity", "rollback", "timing")
_RESUME = "resume"  # the check of a checkpoint, in programs that train
OLDEST_PYTHON, OLDEST_TORCH = (3, 10), (2, 4)
STACK = signal.SIGUSR1  # makes this process write its stack, for a host that is about to end it
_EAGER_STEPS = 50
_ROUNDS, _CALLS, _PROFILED = 15, 20, 10
_PDEATHSIG = 1  # of linux/prctl.h
_TURN = "cudagraph-skill-turn"  # what the first process tells the others when it is their turn
_LONGEST = timedelta(hours=1)  # that they wait for it; whoever started us has a deadline of its own


def main(arguments: list[str] | None = None) -> int:
    """Verify one file: 0 where every check came back, 1 where one failed, 3 where the machine lacks something."""
    args = _arguments(arguments)
    if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        del sys.path[0]  # our own folder; the user may have modules named like ours
    ctypes.CDLL(None).prctl(_PDEATHSIG, *map(ctypes.c_ulong, (signal.SIGKILL, 0, 0, 0)))
    faulthandler.enable()
    faulthandler.register(STACK, all_threads=False)
    report = Report(args.report, int(os.environ["RANK"]) if args.launched else 0)
    report.add("started", pid=os.getpid())
    turn = Turn("" if args.processes > 1 and not args.launched else args.turn, report, args.processes)
    missing = without_torch() or (lacking(args.processes) if args.processes > 1 else "")
    if missing:
        return _lacks(missing, report)
    if args.processes > 1 and not args.launched:
        _launch(args)
    report.add("machine", **machine())
    return verified(args.file, report, turn, eager=args.eager)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", help="the program: it has main, parity, rollback, timing, prepare and batches")
    parser.add_argument("--report", required=True, help="where events are appended, a line of JSON each")
    parser.add_argument("--processes", type=int, default=1, help="how many processes it is for, a GPU each; 1 if not given")
    parser.add_argument("--launched", action="store_true", help="torchrun started this: take the rank from the environment")
    parser.add_argument("--eager", action="store_true", help="run no check but 50 eager steps")
    parser.add_argument(
        "--turn", default="", help="a file that is locked while times are measured, by which programs take turns"
    )
    return parser.parse_args(arguments)


def _launch(args: argparse.Namespace) -> None:
    """Become torchrun, which starts this file once for each process; does not return."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.processes)]
    given = [args.file, "--report", args.report, "--processes", str(args.processes), "--launched", "--turn", args.turn]
    os.execv(  # noqa: S606 - the interpreter that runs this
        sys.executable, [sys.executable, *launcher, __file__, *given, *(["--eager"] if args.eager else [])]
    )


def verified(file: str, report: Report, turn: Turn, eager: bool = False) -> int:
    """Import the file and run its checks, with `eager` only some eager steps; the exit code."""
    try:
        module = loaded(file)
    except BaseException as error:  # noqa: BLE001 - the user's code raises what it likes
        missing = lacking(1)
        return _lacks(missing, report) if missing else _fails("import", error, report)
    missing = lacking(1)
    if missing:
        return _lacks(missing, report)
    try:
        _prepare_checks(module, report, turn, eager)
        came = module.main()
    except Enough:
        return 0
    except BaseException as error:  # noqa: BLE001 - also SystemExit, which is no end of a check
        return _fails(report.check or "main", error, report)
    for name, result in (came if isinstance(came, dict) else {}).items():
        if name not in (*CHECKS, _RESUME):
            report.add("result", check=name, result=result)
    report.add("checked")
    if turn.processes == 1 and not eager and hasattr(module, "prepare") and hasattr(module, "batches"):
        _measure(module, report, turn)
    report.add("done")
    return 0


def _prepare_checks(module: Any, report: Report, turn: Turn, eager: bool) -> None:
    """Have the module's own checks, which its main looks up by name, report themselves."""
    if eager:
        module.parity = recorded(lambda: eager_steps(module), "eager", report, last=True)
        return
    if turn.path:
        module.timing = timed_alone(module, turn)
    own = getattr(getattr(module, _RESUME, None), "__module__", "") == module.__name__
    for name in (*CHECKS, *([_RESUME] if own else [])):
        setattr(module, name, recorded(getattr(module, name), name, report))


def _lacks(missing: str, report: Report) -> int:
    report.add("lacking", said=missing)
    return 3


def _fails(check: str, error: BaseException, report: Report) -> int:
    found = failure(error)
    report.add("failed", check=check, **found)
    with contextlib.suppress(OSError, ValueError):  # the program may have closed it
        sys.stderr.write(found["traceback"] + "\n")
    return 1


class Enough(BaseException):
    """Nothing more is wanted of the program."""


class Report:
    """Events as lines of JSON; of several processes the first one writes, the others only what fails them."""

    def __init__(self, path: str, rank: int = 0) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._owner = os.getpid()
        self.rank = rank
        self.check = ""  # the check that runs

    def add(self, event: str, **said: Any) -> None:
        """Append one event; a fork that user code made writes nothing."""
        if os.getpid() == self._owner and (self.rank == 0 or event in {"failed", "lacking"}):
            os.write(self._fd, f"{json.dumps({'event': event, **plain(said)})}\n".encode())


def plain(value: Any) -> Any:
    """Return `value` as JSON has it: a tensor as its numbers, what is no number in JSON as text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


# What is there --------------------------------------------------------------------------------------------------------


def without_torch() -> str:
    """Return why this interpreter cannot run the program, as a sentence; "" where it can. Imports torch."""
    here = sys.executable
    if sys.version_info < OLDEST_PYTHON:
        return (
            f"{here} is Python {platform.python_version()}, and the program needs 3.10 or newer: name another with `--python`"
        )
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return f"{here} has no torch: name the Python that has it with `--python`, or install torch >=2.4 for this one"
        return f"`import torch` fails in {here}: {error}"
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything, often OSError
        return f"`import torch` fails in {here}: {' '.join(str(error).split())}"
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < OLDEST_TORCH:
        return f"{here} has torch {torch.__version__}, and the program needs torch 2.4 or newer"
    return ""


def lacking(processes: int) -> str:
    """Return what the machine lacks for so many processes, as a sentence; "" where nothing."""
    import torch

    if not torch.version.cuda:
        return (
            f"the program needs a GPU, and the torch of {sys.executable} was built without CUDA: install a CUDA build, "
            "or name another Python with `--python`"
        )
    why = "it counts none"
    try:
        count = torch.cuda.device_count()
        if not count:
            torch.cuda.init()
    except Exception as error:  # noqa: BLE001 - whatever the driver says is the answer
        count, why = 0, (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    if not count:
        return (
            f"the program needs a GPU, and torch sees none ({why}): run this on a machine with an NVIDIA GPU that "
            "CUDA_VISIBLE_DEVICES names"
        )
    return f"the program needs {processes} GPUs, and this machine has {count}" if count < processes else ""


def machine() -> dict[str, str]:
    """Return driver, versions and number of GPUs; the GPU itself is named once the program has started CUDA."""
    import torch

    return {
        "driver": _driver(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "python": platform.python_version(),
        "gpus": str(torch.cuda.device_count() if torch.version.cuda else 0),
    }


def _driver() -> str:
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
        found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text)
        if found:
            return found[1]
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.split("\n")[0].strip()
    return ""


# The program ----------------------------------------------------------------------------------------------------------


def loaded(file: str) -> Any:
    """Return the file as a module, imported as if it were run: its folder is first on the path, its name alone in `sys.argv`."""
    path = os.path.realpath(file)
    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [file]
    stem = os.path.basename(path).rpartition(".")[0]
    free = stem.isidentifier() and stem not in sys.modules and stem not in sys.stdlib_module_names
    name = stem if free else f"_verified_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the compiler looks it up there
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is left beside the user's file
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def recorded(check: Callable[..., Any], name: str, report: Report, last: bool = False) -> Callable[..., Any]:
    """Return `check` with its begin and its result in the report; no other is wanted after the `last` one."""

    def run(*args: Any, **kwargs: Any) -> Any:
        report.check = name
        report.add("began", check=name)
        result = check(*args, **kwargs)
        report.add("machine", **_gpu())
        report.add("result", check=name, result=result)
        report.check = ""
        if last:
            raise Enough
        return result

    return functools.update_wrapper(run, check)


def _gpu() -> dict[str, str]:
    """Return the name of the GPU that the program works on; nothing before it has started CUDA."""
    torch = sys.modules.get("torch")
    return {"gpu": torch.cuda.get_device_name()} if torch and torch.cuda.is_initialized() else {}


def eager_steps(module: Any) -> dict[str, int]:
    """Run the program's eager way for a while, without a look at the numbers."""
    import torch

    run, data = module.prepare("eager"), module.batches(_EAGER_STEPS)
    for batch in data:
        run(*batch)
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return {"steps": len(data)}


def failure(error: BaseException) -> dict[str, str]:
    """Return what was raised: `kind` is wrong (an assertion), memory or error; the traceback is without frames of this file."""
    found = traceback.TracebackException.from_exception(error)
    step: traceback.TracebackException | None = found
    while step is not None:
        step.stack = traceback.StackSummary.from_list([each for each in step.stack if not _is_ours(each.filename)])
        step = step.__cause__ or step.__context__
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    kinds = [each.__name__ for each in type(error).__mro__]
    kind = "memory" if "OutOfMemoryError" in kinds else "wrong" if "AssertionError" in kinds else "error"
    return {"kind": kind, "error": said, "traceback": "".join(found.format()).rstrip()}


def _is_ours(path: str) -> bool:
    return path == _is_ours.__code__.co_filename or path.startswith("<frozen importlib")


# Taking turns ---------------------------------------------------------------------------------------------------------


class Turn:
    """Lets programs be verified side by side and be timed alone, by a lock on a file; without a file there is nothing to wait for.

    All of them hold the lock together while they work. Who measures gives its share back, so that two of them never wait for
    each other, and takes the whole lock; of a program's processes the first one does, when the others have given theirs back.
    """

    def __init__(self, path: str, report: Report, processes: int = 1) -> None:
        self.path = path
        self.processes = processes
        self._report = report
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) if path else -1
        self._alone = False
        self._lock(fcntl.LOCK_SH)

    def take(self) -> None:
        """Wait until nobody else works; a second call does nothing."""
        if self._alone or not self.path:
            return
        self._alone = True
        self._lock(fcntl.LOCK_EX if self._report.rank == 0 else 0)
        if self.processes > 1:
            self._tell()

    def give_back(self) -> None:
        """Let the others work again."""
        if self._alone:
            self._alone = False
            if self.processes > 1:
                self._gather()
            self._lock(fcntl.LOCK_SH)

    def _lock(self, how: int) -> None:
        """Give back what is held, then wait for the lock in this way; 0 for none."""
        if not self.path:
            return
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        if how:
            self._report.add("waits")
            fcntl.flock(self._fd, how)
            self._report.add("goes on")

    def _tell(self) -> None:
        """Let the first process have the lock, through the store of the process group: a collective would keep the GPUs busy."""
        if self._report.rank == 0:
            _store().set(_TURN, "")
        else:
            _store().wait([_TURN], _LONGEST)

    def _gather(self) -> None:
        """Keep the lock in the first process until the others have done their part too."""
        _store().set(f"{_TURN} {self._report.rank}", "")
        if self._report.rank == 0:
            _store().wait([f"{_TURN} {rank}" for rank in range(self.processes)], _LONGEST)


def _store() -> Any:
    """Return what the processes of the group tell each other through."""
    import torch.distributed as dist

    return dist.distributed_c10d._get_default_store()


def timed_alone(module: Any, turn: Turn) -> Callable[[], Any]:
    """Return `module.timing`, which waits for its turn where it first looks at the clock: what it compiles before needs none."""
    timing = module.timing
    looks = getattr(module, "time", None) is time and "perf_counter" in inspect.unwrap(timing).__code__.co_names

    def first_look() -> float:
        module.time = time
        turn.take()
        return time.perf_counter()

    @functools.wraps(timing)
    def run() -> Any:
        if looks:
            module.time = SimpleNamespace(**{**vars(time), "perf_counter": first_look})
        else:
            turn.take()
        try:
            return timing()
        finally:
            if looks:
                module.time = time
            turn.give_back()

    return run


# The replay -----------------------------------------------------------------------------------------------------------


def _measure(module: Any, report: Report, turn: Turn) -> None:
    """Add the figures of a replay to the report; what goes wrong here is no fault of the program's."""
    report.add("began", check="replay")
    try:
        report.add("result", check="replay", result=replay(module, turn))
    except Exception as error:  # noqa: BLE001 - see above
        report.add("note", said=f"the replay was not measured: {failure(error)['error'].splitlines()[0]}")


def replay(module: Any, turn: Turn) -> dict[str, float]:
    """Return a call of the graph on batches that are on the GPU: wall and busy time in microseconds, and operations of the GPU."""
    import torch
    from torch.autograd.profiler import profile

    if getattr(module, "profile", None) is profile:
        raise RuntimeError("the program has a profiler of its own")
    gc.collect()
    on_gpu = [[each.cuda() if isinstance(each, torch.Tensor) else each for each in batch] for batch in module.batches(_CALLS)]
    run = module.prepare("graph")
    _wall_us(run, on_gpu)
    turn.take()
    try:
        wall = statistics.median(_wall_us(run, on_gpu) for _ in range(_ROUNDS))
        spans = gpu_spans(run, on_gpu[:_PROFILED])
    finally:
        turn.give_back()
    if not spans:
        raise RuntimeError("the profiler saw no work on the GPU")
    calls = min(_PROFILED, len(on_gpu))
    busy = union(spans) / calls / 1e3
    return {
        "wall_us": round(wall, 1),
        "busy_us": round(busy, 1),
        "nodes": round(len(spans) / calls, 1),
        "wall_over_busy": round(wall / busy, 3),
    }


def _wall_us(run: Callable[..., Any], data: list[list[Any]]) -> float:
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    for batch in data:
        run(*batch)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / len(data) * 1e6


def gpu_spans(run: Callable[..., Any], data: list[list[Any]]) -> list[tuple[int, int]]:
    """Return begin and end of each kernel, copy and memset, in nanoseconds."""
    import torch
    from torch.autograd.profiler import profile

    with profile(use_device="cuda", use_kineto=True) as prof:
        for batch in data:
            run(*batch)
        torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    seen = [each for each in prof.kineto_results.events() if each.device_type() == cuda and not _annotates(each)]
    return [(each.start_ns(), each.start_ns() + each.duration_ns()) for each in seen]


def _annotates(event: Any) -> bool:
    """Tell whether an event is a range that code was marked with, which spans kernels and is none; torch 2.4 does not say so."""
    if hasattr(event, "is_user_annotation"):
        return bool(event.is_user_annotation())
    return str(event.name()).startswith("Optimizer.")


def union(spans: Iterable[tuple[int, int]]) -> int:
    """Return how much of the time lies in at least one of the spans."""
    total, last = 0, -math.inf
    for begin, end in sorted(spans):
        total += int(max(0, end - max(begin, last)))
        last = max(last, end)
    return total


def run() -> None:
    """Run `main` as a program; one that was left in the middle ends at once, since it may hang at a regular end."""
    left = "--eager" in sys.argv
    code = main()
    if code or left:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    run()
