"""Run a command and kill its process tree when it ends or the host does: `python keeper.py DESCRIPTOR COMMAND ...`.

This process is a subreaper: detached processes become its children, whatever their session and environment. The host holds the
other end of the descriptor, which closes when the host ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cudagraph_skill.capture.guest import processes

KEEPER = (sys.executable, "-I", __file__)  # before the descriptor and the command
NOT_STARTED = 127  # exit code, as a shell has it
_MOST_DESCRIPTORS = 1 << 12
_LOOK = 0.05  # seconds between two looks, where the kernel cannot tell that a process ended


def main() -> None:
    """Run the command and end as it ended."""
    host, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(host, False)
    processes.become_reaper()
    child = processes.fork()
    if not child:
        _become(command)
    os.closerange(3, host)  # pipes of the command
    os.closerange(host + 1, _MOST_DESCRIPTORS)
    ending = processes.pidfd(child)
    while not processes.has_ended(child) and not select.select([host, *ending], [], [], _LOOK)[0]:
        pass
    _, statuses = processes.sweep()
    status = statuses.get(child, 0)
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has written its own
        with contextlib.suppress(OSError, ValueError):  # SIGKILL
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
        signal.pause()
    os._exit(os.WEXITSTATUS(status))


def _become(command: list[str]) -> None:
    try:
        os.execvp(command[0], command)  # noqa: S606 - the words of the command are given one by one
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    main()
