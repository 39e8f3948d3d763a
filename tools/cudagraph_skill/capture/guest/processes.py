"""Run child processes with a deadline and a memory limit, receive what they report, and kill all they leave."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import re
import select
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest.agreement import Alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Frame = list[Any]  # [file, line, function], as it goes over the wire

_PDEATHSIG, _SUBREAPER = 1, 36  # of linux/prctl.h
_PAUSE, _SHORTEST_PAUSE = 0.05, 0.002  # seconds between two measurements of the memory of the tree
_FASTEST = 16 << 30  # bytes a second that a tree may fill: the nearer the bound, the sooner it is measured again
_TREE = 0.1  # seconds between two looks for new processes in the tree
_LEAD = 0.7  # seconds before the deadline at which a hanging child writes its stack: enough for hundreds of threads
_GIVE_UP = 5.0  # seconds after which a process that SIGKILL does not end is left: it hangs in the driver
_HIGH = 200  # our descriptors stand above those that programs count on, such as 3 for the first file opened


class Commands:
    """Messages from the host, read without waiting: requests, cancelled ids, and that it ended."""

    def __init__(self, fd: int) -> None:
        self.fd = _high(fd)
        self.cancelled: set[int] = set()
        self._host = os.getppid()
        self._eof = False
        self._buffer = b""
        self._requests: list[dict[str, Any]] = []

    def inherited(self) -> None:
        """Take the process that forked this one for the host."""
        self._host = os.getppid()

    def gone(self) -> bool:
        """Return whether the host ended. Its parent id is checked too, in case a fork of the host still holds the pipe."""
        self._look(0)
        return self._eof or os.getppid() != self._host

    def request(self) -> dict[str, Any] | None:
        """Wait for the next request and return it; None once the host has ended."""
        while not self._requests:
            self._look(1)
            if self.gone() and not self._requests:
                return None
        return self._requests.pop(0)

    def _look(self, seconds: float) -> None:
        if self._eof or not select.select([self.fd], [], [], seconds)[0]:
            return
        data = os.read(self.fd, 1 << 16)
        self._eof = not data
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for message in map(json.loads, lines):
            if "cancel" in message:
                self.cancelled.add(message["cancel"])
            else:
                self._requests.append(message)


class Reports(Alone):
    """The pipe to the host. Only the process that owns it writes, so forks made by user code stay silent.

    While checking, such a fork ends where it comes to report (`forks_end`), because it would repeat its parent's check; in the
    user's own program it goes on, as it would without us.
    """

    def __init__(self, fd: int, forks_end: bool = True) -> None:
        self._fd = _high(fd)
        self._pipe = _identity(self._fd)
        self._forks_end = forks_end
        self._owner = os.getpid()

    def own(self) -> None:
        """Make this process the one that writes."""
        self._owner = os.getpid()

    def mine(self) -> bool:
        """Return whether this process owns the pipe, so is not a fork made by user code."""
        return os.getpid() == self._owner

    def progress(self, doing: str) -> None:
        """Report what is being done from now on."""
        self.send({"event": "progress", "said": doing})

    def step(self, name: str, outcome: str, message: str = "", seconds: float = 0.0) -> None:
        """Report a finished step: `outcome` is ok, failed, differs or skipped; `seconds` is its duration."""
        self.send({"event": "step", "name": name, "outcome": outcome, "said": message, "seconds": round(seconds, 4)})

    def draft(self, result: dict[str, Any]) -> None:
        """Report a result that counts if no other comes; the last one does."""
        self.send({**result, "event": "draft"})

    def result(self, result: dict[str, Any]) -> None:
        """Report the result; the last one counts."""
        self.send({**result, "event": "result"})

    def send(self, event: dict[str, Any]) -> None:
        """Write one event.

        Raises:
            OSError: the host is gone, or user code closed the pipe.
        """
        if not self.mine():
            if self._forks_end:
                os._exit(0)
            return
        if _identity(self._fd) != self._pipe:
            raise OSError("the report pipe was closed by the program, and something else stands in its place")
        # The newline before it ends what a killed writer left unfinished; the host passes over empty and broken lines.
        data = memoryview(f"\n{json.dumps(event, default=str)}\n".encode())
        while data:
            data = data[os.write(self._fd, data) :]


class Notes:
    """What a child leaves for the process that watches it, readable after a kill: JSON lines and faulthandler's stacks."""

    def __init__(self) -> None:
        self.lines, self.stacks = _memory_file(), _memory_file()

    def add(self, **facts: Any) -> None:
        """Add what is known now; a later value of a name replaces an earlier one."""
        os.write(self.lines, (json.dumps(facts, default=str) + "\n").encode())

    def read(self) -> dict[str, Any]:
        """Return all that was added."""
        merged: dict[str, Any] = {}
        for line in _content(self.lines).splitlines():
            with contextlib.suppress(ValueError):  # a line that a killed writer left unfinished
                merged.update(json.loads(line))
        return merged

    def stack(self) -> list[Frame]:
        """Return where the child crashed or ran out of time, outermost frame first; [] if unknown."""
        return parse_stack(_content(self.stacks).decode("utf-8", "replace"), threading.get_ident())

    def close(self) -> None:
        """Free both files."""
        os.close(self.lines)
        os.close(self.stacks)


def become_reaper() -> None:
    """Make processes that user code detaches become children of this one, so that they cannot escape."""
    _prctl(_SUBREAPER, 1)


def end_with_parent() -> None:
    """Let the kernel tell this process when its parent ends, and on that kill all below it, then end.

    A plain SIGKILL would end it at once, and leave what user code detached.
    """
    signal.signal(signal.SIGTERM, _end)
    _prctl(_PDEATHSIG, signal.SIGTERM)


def _end(*_: object) -> None:
    sweep()
    os._exit(128 + signal.SIGTERM)


def fork() -> int:
    """Fork; the child (0) is in a process group of its own and dies with this process.

    To be called in the main thread: what the kernel watches is the thread that forked.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # user code may have put anything there
            stream.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: torch has threads; they sleep, and fork knows them
        child = os.fork()
    if child:
        return child
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    os.setpgid(0, 0)
    return 0


_armed: list[tuple[int, float]] = []  # where this process writes its stack and by when, while it is to


def arm(notes: Notes, end: float) -> None:
    """Let this process write its stack when it crashes, and shortly before `end` (seconds of the monotonic clock)."""
    _armed[:] = [(notes.stacks, end)]
    faulthandler.enable(file=notes.stacks)
    _start_clock()


def disarm() -> None:
    """Stop waiting for the deadline."""
    _armed.clear()
    faulthandler.cancel_dump_traceback_later()


def follow_forks() -> None:
    """Keep forks that user code makes out of what `arm` began; to be called once.

    The clock is a thread of faulthandler's. A fork lacks it, yet has the lock that says that it runs, and would wait for it at
    its own end. And its crash must not be taken for one of its parent.
    """
    os.register_at_fork(
        before=faulthandler.cancel_dump_traceback_later, after_in_parent=_start_clock, after_in_child=_forget_stack
    )


def _start_clock() -> None:
    for stacks, end in _armed:
        left = max(end - time.monotonic(), 0.02)
        faulthandler.dump_traceback_later(left - min(_LEAD, left * 0.3), file=stacks)


def _forget_stack() -> None:
    if _armed:
        _armed.clear()
        faulthandler.disable()


def _never() -> bool:
    return False


def watch(
    child: int, message: dict[str, Any], end: float, commands: Commands | None, until: Callable[[], bool] = _never
) -> tuple[str, str]:
    """Wait for `child` to end, or for `until`: ("", ""), or why it has to be ended, and in what detail.

    `end` is in seconds of the monotonic clock, `memory` of the message in bytes, 0 for no bound. A rank has no `commands`: it ends
    with the process that started it.
    """
    ended = pidfd(child)
    memory, pause = Memory(message.get("memory", 0)), _PAUSE
    try:
        while not has_ended(child) and not until():
            if commands and (commands.gone() or message["id"] in commands.cancelled):
                return "cancelled", ""
            if time.monotonic() >= end:
                return "deadline", f"{message['deadline']:g} s"
            if memory.bound:
                used = memory.used()
                if used > memory.bound:
                    return "memory", f"{used / 2**30:.2f} GiB of {memory.bound / 2**30:.2f} GiB"
                pause = max(_SHORTEST_PAUSE, min(_PAUSE, (memory.bound - used) / _FASTEST))
            awaited = [*ended, commands.fd] if commands else ended
            select.select(awaited, [], [], max(0, min(pause, end - time.monotonic())))
    finally:
        for fd in ended:
            os.close(fd)
    return "", ""


def sweep() -> tuple[set[int], dict[int, int]]:
    """Kill and reap all descendants: those that were alive, and the wait statuses of the children of this process.

    Only a subreaper may be sure that nothing stays: where it has no child left, it has no descendant left.
    """
    killed: set[int] = set()
    statuses: dict[int, int] = {}
    give_up = time.monotonic() + _GIVE_UP
    while _reap(statuses) and time.monotonic() < give_up:
        alive = descendants(os.getpid())
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        killed |= alive
        time.sleep(0.002)
    return killed, statuses


def descendants(pid: int) -> set[int]:
    """Return the living processes below `pid`, without `pid` itself."""
    children: dict[int, list[int]] = {}
    zombies = set()
    for name in (entry.name for entry in Path("/proc").iterdir()):
        state, parent = _state(name) if name.isdigit() else ("", 0)
        if state:
            children.setdefault(parent, []).append(int(name))
        if state in {"Z", "X"}:
            zombies.add(int(name))
    pids, waiting = set(), [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        pids |= set(below)
        waiting += below
    return pids - zombies


def threads() -> int:
    """Count the threads of this process, including those of C libraries; not those that their library starts anew in a fork."""
    names = [_read(f"/proc/self/task/{task.name}/comm").strip() for task in Path("/proc/self/task").iterdir()]
    return len(names) - names.count("jemalloc_bg_thd")


_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
_THREAD = re.compile(r"(Current thread|Thread) 0x([0-9a-f]+).*\(most recent call first\):")


def parse_stack(text: str, main: int) -> list[Frame]:
    """Parse faulthandler's output: return the frames of the crashed thread, else of `main`, outermost first."""
    crashed: list[Frame] = []
    mains: list[Frame] = []
    others: list[Frame] = []
    for line in text.splitlines():
        thread, frame = _THREAD.match(line), _FRAME.match(line)
        if thread:
            others = []
            crashed = others if thread[1] == "Current thread" else crashed
            mains = others if int(thread[2], 16) == main else mains
        if frame:
            others.append([_unescaped(frame[1]), int(frame[2]) if frame[2].isdigit() else 0, _unescaped(frame[3])])
    return (crashed or mains or others)[::-1]


def _unescaped(text: str) -> str:
    """Decode the escapes that faulthandler writes for non-ASCII characters."""
    return re.sub(r"\\(?:x(..)|u(....)|U(........))", lambda match: chr(int(match[1] or match[2] or match[3], 16)), text)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def _high(fd: int) -> int:
    """Move `fd` to a high number, closed in started programs; the old number is free again."""
    import fcntl

    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(fd)
    return high


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _memory_file() -> int:
    """Create an unnamed file, in memory if possible; an interpreter built for an older glibc gets one on disk."""
    make = getattr(os, "memfd_create", None)
    if make:
        return _high(make("cudagraph-skill"))
    import tempfile

    with tempfile.TemporaryFile() as file:
        return _high(os.dup(file.fileno()))


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def pidfd(pid: int) -> list[int]:
    """Return a descriptor that becomes readable when `pid` ends; [] if kernel or interpreter is too old: then we poll."""
    make = getattr(os, "pidfd_open", None)
    with contextlib.suppress(OSError):
        return [_high(make(pid))] if make else []
    return []


def has_ended(child: int) -> bool:
    """Return whether a child has ended; its status stays to be taken."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap(statuses: dict[int, int]) -> bool:
    """Take the status of every child that ended; whether others are left."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return True
            statuses[pid] = status
    except ChildProcessError:
        return False


def _state(pid: str) -> tuple[str, int]:
    """Return state letter and parent of a process; ("", 0) if it is gone. Its name may contain blanks and brackets."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], int(fields[1])) if fields else ("", 0)


class Memory:
    """The memory that the descendants of this process use together; `bound` in bytes, 0 for none."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._pids: set[int] = set()
        self._next = 0.0

    def used(self) -> int:
        """Return the bytes in use.

        Pages that a fork shares count in each process; only where that sum is over the bound are they counted once, which is slow.
        """
        began = time.monotonic()
        if began >= self._next:
            self._pids = descendants(os.getpid())
            self._next = began + max(_TREE, 10 * (time.monotonic() - began))  # long where thousands of processes run
        resident = sum(map(_resident, self._pids))
        return resident if resident <= self.bound else sum(map(_proportional, self._pids))


def _resident(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _proportional(pid: int) -> int:
    match = re.search(r"^Pss:\s+(\d+) kB", _read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE)
    return int(match[1]) * 1024 if match else _resident(pid)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def stack_of(error: BaseException) -> list[Frame]:
    """Return where an exception was raised, outermost frame first."""
    frames: list[Frame] = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        frames.append([code.co_filename, step.tb_lineno, code.co_name])
        step = step.tb_next
    return frames


def signal_name(number: int) -> str:
    """Return `SIGSEGV` for 11; real-time signals have no name."""
    names: Iterable[signal.Signals] = signal.Signals
    return next((known.name for known in names if known == number), f"signal {number}")
