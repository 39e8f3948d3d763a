"""A process that forks one for each job, so that a job can be ended: it has one thread, and has imported what jobs need.

The server holds one end of a socket pair for each job and passes the other to this process. The child reads the job from it and
writes its answer to it. Where the server closes its end, because the deadline has passed, the call was cancelled or the server
died, the child and all that it started are killed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import traceback
from typing import Any

from cudagraph_skill.capture.guest import processes
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import printable

from cudagraph_skill_server import job_work
from cudagraph_skill_server.files import confine

PASS = b"j"  # the message that comes with the socket of a job
_LOOK = 20  # milliseconds between two looks at the children, where the kernel cannot tell that one ended
_HANDLED = (SystemExit, KeyboardInterrupt)


def main(descriptor: int) -> None:
    """Serve until the other end of the control socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes its end
    control = socket.socket(fileno=descriptor)
    with contextlib.suppress(Exception):  # a job says what is wrong
        job_work.warm()
    gc.freeze()  # what children share stays shared: no collection writes to it
    children: dict[int, _Child] = {}
    while True:
        if descriptor in _events(descriptor, children):
            with contextlib.suppress(OSError):
                message, passed, _, _ = socket.recv_fds(control, len(PASS), 1)
                if not message:
                    break
                _start(passed[0], descriptor, children)
        for child in [each for each in children.values() if each.is_over()]:
            child.end()
            del children[child.job]
    for child in children.values():
        child.end()
    os._exit(0)


def _events(control: int, children: dict[int, _Child]) -> set[int]:
    poll = select.poll()
    poll.register(control, select.POLLIN)
    for child in children.values():
        poll.register(child.job, 0)  # the other end was closed
        for fd in child.ending:
            poll.register(fd, select.POLLIN)
    blind = any(not child.ending for child in children.values())
    ready = poll.poll(_LOOK if blind else None)
    for fd, _ in ready:
        if fd in children:
            children[fd].is_given_up = True
    return {fd for fd, _ in ready}


class _Child:
    """A job's process, with our copy of the job's socket."""

    def __init__(self, pid: int, job: int) -> None:
        self.pid, self.job = pid, job
        self.ending = processes.pidfd(pid)
        self.is_given_up = False

    def is_over(self) -> bool:
        return self.is_given_up or processes.has_ended(self.pid)

    def end(self) -> None:
        """Kill what is left of its process group, and reap it; until then no other process can have its number."""
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for fd in (self.job, *self.ending):
            os.close(fd)


def _start(job: int, control: int, children: dict[int, _Child]) -> None:
    """Fork the process of a job; where that cannot be done, its socket closes, which tells the server."""
    try:
        pid = os.fork()
    except OSError:
        os.close(job)
        return
    if pid:
        with contextlib.suppress(OSError):  # the child does the same: whoever comes first
            os.setpgid(pid, pid)
        children[job] = _Child(pid, job)
        return
    try:
        os.setpgid(0, 0)
        os.close(control)
        for other in children.values():
            os.close(other.job)
        _die_with_parent()
        _work(socket.socket(fileno=job))
    finally:
        os._exit(1)


def _die_with_parent() -> None:
    with contextlib.suppress(Exception):  # elsewhere than on Linux the closed socket tells it when it writes
        processes._prctl(processes._PDEATHSIG, signal.SIGKILL)  # noqa: SLF001 - of this project


def _work(job: socket.socket) -> None:
    """Do one job, write its answer, and end."""
    with job.makefile("rb") as lines:
        order = json.loads(lines.readline())
    answer = json.dumps(_answered(order)).encode()
    with contextlib.suppress(OSError):  # nobody waits any more
        job.sendall(answer)
        job.shutdown(socket.SHUT_WR)
    os._exit(0)


def _answered(order: dict[str, Any]) -> dict[str, Any]:
    """Return the answer: `line` and `data`, or `refused` with a sentence, or `broke` with what was raised."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"] + 1))
        with contextlib.suppress(ValueError, OSError):  # a lower bound holds already
            resource.setrlimit(resource.RLIMIT_AS, (order["memory"], order["memory"]))
        confine(order["roots"])
        done = job_work.JOBS[order["job"]](order["asked"], order["roots"])
        return {"line": done.line, "data": done.data}
    except SkillError as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"refused": f"this needs more than {order['memory'] >> 20} MB of memory: give less at once"}
    except OSError as error:  # of a file that the client named, or that one of these imports
        name = f"{printable(str(error.filename))[:200]}: " * (error.filename is not None)
        return {"refused": f"{name}{error.strerror or error}; name another file"}
    except _HANDLED:
        raise
    except Exception as error:  # noqa: BLE001 - of this process nobody else could tell
        traceback.print_exc()
        reason = printable(str(error).partition("\n")[0])[:200]
        return {"broke": f"{type(error).__name__}{': ' * bool(reason)}{reason}"}
