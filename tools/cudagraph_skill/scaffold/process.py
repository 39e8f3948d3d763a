"""One command under a deadline, what it reports, and nothing of it left behind; in our process, without torch."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture import reports
from cudagraph_skill.capture.guest.processes import descendants, signal_name
from cudagraph_skill.capture.keeper import KEEPER
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold.guest.verify import STACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CANCELLED = "was cancelled"
TAIL = 1 << 16  # bytes of the output that are kept
_LOOK = 0.05  # seconds between two looks at the process
_STACK_SECONDS = 0.5  # that a process has to write its stack before it is killed
_WEIGH = 0.5  # seconds between two looks at the memory
_GIVE_UP = 5.0  # seconds after which a process that SIGKILL does not end is left: it hangs in the driver
_MARK = "CUDAGRAPH_SKILL_TREE"  # in the environment of all that the command starts, to find it where the keeper was killed
_EVENTS: dict[str, dict[str, Any]] = {  # of guest/verify.py; the program could write other lines into its file
    "started": {"pid": int},
    "machine": {},
    "began": {"check": str},
    "result": {"check": str, "result": object},
    "waits": {},
    "goes on": {},
    "checked": {},
    "note": {"said": str},
    "failed": {"check": str, "kind": str, "error": str, "traceback": str},
    "lacking": {"said": str},
    "done": {},
}


class Run(NamedTuple):
    """The events in order; `ended`: "" for exit code 0, else how it ended, as "ended with SIGSEGV"; the output's tail."""

    events: list[dict[str, Any]]
    ended: str
    output: str


def run(  # noqa: PLR0913 - as capture.host.run_program
    command: Sequence[str],
    report: Path,
    *,
    deadline: float,
    folder: str | None = None,
    environment: Mapping[str, str] | None = None,
    memory: int = 0,
    on_event: Callable[[dict[str, Any]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Run:
    """Run a command that appends events to `report`, a line of JSON each; `cancelled` is asked every 0.05 s.

    It runs in `folder`, or where this process does; `environment` is added to that of this process. `memory` bounds what its
    processes have together, in bytes; 0 for no bound.

    Time between its events "waits" and "goes on" does not count. At the end, however that
    comes, all of its processes are killed, also if this one is.

    Raises:
        SkillError: it cannot be started (exit code 3).
    """
    report.touch()
    mark = uuid.uuid4().hex
    theirs, ours = os.pipe()
    try:
        process = _start(command, folder, {**(environment or {}), _MARK: mark}, theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        with report.open("rb") as lines:
            watched = _Watched(process, mark, lines, on_event or (lambda _: None))
            ended = watched.until(deadline, memory, cancelled or (lambda: False))
            return Run(watched.events, ended, watched.tail.decode("utf-8", "replace"))
    finally:
        os.close(ours)  # the keeper kills what is left, and ends
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GIVE_UP)
        _kill(mark, process if process.returncode is None else None)
        assert process.stdout is not None
        process.stdout.close()
        process.wait()


def _start(command: Sequence[str], folder: str | None, environment: Mapping[str, str], host: int) -> subprocess.Popen[bytes]:
    """Start it under the keeper, in a session of its own, so that Ctrl-C reaches only us."""
    if sys.platform != "linux":
        raise SkillError(f"running a program on the GPU needs Linux, and this is {sys.platform}", 3)
    try:
        return subprocess.Popen(
            [*KEEPER, str(host), *command],
            cwd=folder,
            pass_fds=(host,),
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise SkillError(f"{sys.executable}: {error.strerror}", 3) from None


class _Watched:
    """A process with what it has reported and printed."""

    def __init__(
        self, process: subprocess.Popen[bytes], mark: str, lines: Any, on_event: Callable[[dict[str, Any]], None]
    ) -> None:
        self.events: list[dict[str, Any]] = []
        self.tail = bytearray()
        self._process, self._mark, self._lines, self._on_event = process, mark, lines, on_event
        self._unfinished = b""
        assert process.stdout is not None
        self._output = process.stdout.fileno()
        os.set_blocking(self._output, False)

    def until(self, deadline: float, memory: int, cancelled: Callable[[], bool]) -> str:
        """Wait for its end, or for a reason to end it, which is returned; "" for exit code 0."""
        left, last, weighed = deadline, time.monotonic(), time.monotonic()
        while True:
            running = self._process.poll() is None  # asked first: what it wrote before its end is read below
            self._listen(_LOOK if running else 0)
            if not running:
                code = self._process.returncode
                return f"ended with {signal_name(-code) if code < 0 else f'exit code {code}'}" if code else ""
            now = time.monotonic()
            left, last = left - (0 if self._waits() else now - last), now
            if cancelled():
                return CANCELLED
            if memory and now - weighed > _WEIGH:
                weighed = now
                if used_memory(self._process.pid) > memory:
                    return f"needed more than {memory / (1 << 30):.3g} GB of host memory"
            if left <= 0:
                self._ask_for_stack()
                return f"did not end within {deadline:g} s"

    def _listen(self, seconds: float) -> None:
        """Take what comes within so many seconds."""
        end = time.monotonic() + seconds
        while True:
            ready = select.select([self._output], [], [], max(0, end - time.monotonic()))[0]
            data = os.read(self._output, TAIL) if ready else b""
            self.tail += data
            del self.tail[:-TAIL]
            if ready and not data and seconds:
                time.sleep(max(0, end - time.monotonic()))  # it closed its output, which select reports at once and for ever
            if not data or time.monotonic() > end + seconds:
                break
        *lines, self._unfinished = (self._unfinished + self._lines.read()).split(b"\n")
        for event in filter(None, (reports.parsed(line, _EVENTS) for line in lines)):
            self.events.append(event)
            self._on_event(event)

    def _waits(self) -> bool:
        return bool(self.events) and self.events[-1]["event"] == "waits"

    def _ask_for_stack(self) -> None:
        """Have the process that began last write into its output where it is."""
        pids = [event["pid"] for event in self.events if event["event"] == "started"]
        with contextlib.suppress(OSError):
            if pids and pids[-1] in marked(self._mark):
                os.kill(pids[-1], STACK)
                self._listen(_STACK_SECONDS)


def _kill(mark: str, keeper: subprocess.Popen[bytes] | None) -> None:
    """Kill all processes that have the mark, and those below a keeper that still runs, until there are none."""
    give_up = time.monotonic() + _GIVE_UP
    while (living := {*marked(mark), *(descendants(keeper.pid) if keeper else ())}) and time.monotonic() < give_up:
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def used_memory(keeper: int) -> int:
    """Return the bytes that the processes below a keeper have; pages that they share count once."""
    pages = [(0, 0)]
    for pid in descendants(keeper):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
            pages.append((int(fields[1]) - int(fields[2]), int(fields[2])))
    return (sum(own for own, _ in pages) + max(shared for _, shared in pages)) * os.sysconf("SC_PAGE_SIZE")


def marked(mark: str) -> list[int]:
    """Return the living processes that were started with this mark in their environment; a zombie has none."""
    wanted, pids = f"{_MARK}={mark}".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes():
                    pids.append(int(folder.name))
    return pids
