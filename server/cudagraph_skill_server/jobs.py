"""Hand jobs to the process that forks one for each, and end a job where its call ends."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from cudagraph_skill.errors import SkillError

from cudagraph_skill_server.wording import broken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEADLINE = 60.0  # seconds of a job; a check of a thousand files takes ten on two cores
MEMORY = 4 << 30  # bytes of address space; the largest check that was seen took 0.9 GB
_MOST = 4  # jobs at once: they compute, so that more would only share the cores
_LARGEST_ANSWER = 16 << 20  # bytes
_PASS = b"j"  # as job_server reads it, which this process does not import
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; from cudagraph_skill_server import job_server; job_server.main(int(sys.argv[1]))"
)


class Broke(Exception):  # noqa: N818 - what it says is an answer
    """A job raised what none should; it is told in words."""


class Jobs:
    """Runs jobs for one server, at most four at once; others wait, and their deadline with them."""

    def __init__(self, roots: Sequence[str] | None = None, deadline: float = DEADLINE, memory: int = MEMORY) -> None:
        self._roots, self._deadline, self._memory = roots, deadline, memory
        self._turn = anyio.Semaphore(_MOST)

    async def run(self, job: str, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the line and the data that a job answers; where this is cancelled, its process is killed.

        Raises:
            SkillError: it refused, took longer than the deadline or more memory than it may, or was killed.
            Broke: it has a bug.
        """
        order = {"job": job, "asked": asked, "roots": self._roots, "memory": self._memory, "seconds": math.ceil(self._deadline)}
        async with self._turn:
            with anyio.move_on_after(self._deadline) as scope:
                answer = await _answered(json.dumps(order).encode() + b"\n")
                if not answer and await _has_ended():  # killed before it forked for this job
                    answer = await _answered(json.dumps(order).encode() + b"\n")
        if scope.cancelled_caught:
            raise SkillError(f"it did not end within {self._deadline:g} s, and was stopped: give it less at once")
        if not answer:
            raise SkillError("its process was killed, which ends nothing else: give it less at once, or try again")
        told = json.loads(answer)
        if "refused" in told:
            raise SkillError(told["refused"])
        if "broke" in told:
            raise Broke(broken(told["broke"]))
        return told["line"], told["data"]


async def _has_ended() -> bool:
    """Return whether the process that forks has ended; the kernel closes its sockets a moment before it tells that."""
    await anyio.sleep(0.05)
    return not (_forking and _forking[0].is_alive())


async def _answered(order: bytes) -> bytes:
    """Return the answer to an order; b"" where its process died."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            _pass_on(theirs)
        ours.setblocking(False)
        try:
            await _send(ours, order)
            return await _receive(ours)
        except (BrokenPipeError, ConnectionResetError):
            return b""


async def _send(ours: socket.socket, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        await anyio.wait_writable(ours)
        with contextlib.suppress(BlockingIOError):
            rest = rest[ours.send(rest) :]


async def _receive(ours: socket.socket) -> bytes:
    answer = bytearray()
    while True:
        await anyio.wait_readable(ours)
        with contextlib.suppress(BlockingIOError):
            data = ours.recv(1 << 16)
            answer += data
            if not data:
                return bytes(answer)
            if len(answer) > _LARGEST_ANSWER:
                raise SkillError(f"its answer is longer than {_LARGEST_ANSWER >> 20} MB: give it less at once")


# The process that forks -----------------------------------------------------------------------------------------------


class _Forking:
    """The process that forks one for each job, started by the first; it ends when the control socket closes."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            beside = [str(Path(__file__).parents[1]), str(Path(sys.modules["cudagraph_skill"].__file__ or "").parents[1])]
            path = list(dict.fromkeys([*beside, *(entry for entry in sys.path if entry)]))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, str(theirs.fileno()), *path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def take(self, job: socket.socket) -> None:
        """Fork a process for a job.

        Raises:
            OSError: this process has ended.
        """
        socket.send_fds(self._control, [_PASS], [job.fileno()])

    def end(self) -> None:
        """Have it kill its jobs and end."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self._process.kill()
        self._process.wait()


_forking: list[_Forking] = []  # one, when it was needed


def start() -> None:
    """Start the process that forks, unless it runs, so that the first job need not wait for it.

    Raises:
        SkillError: the machine has no room for one more process.
    """
    if _forking and _forking[0].is_alive():
        return
    close()
    try:
        _forking.append(_Forking())
    except OSError as error:
        raise SkillError(f"no process for this could be started: {error.strerror}", 3) from None


def _pass_on(job: socket.socket) -> None:
    start()
    try:
        _forking[0].take(job)
    except OSError:  # it was killed a moment ago
        close()
        start()
        _forking[0].take(job)


@atexit.register
def close() -> None:
    """End the process that forks, and its jobs; a later job starts another."""
    while _forking:
        _forking.pop().end()
