"""One rank of a program that torchrun started: a socket to the host, and the program in a child that is watched."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import server
from cudagraph_skill.capture.guest.agreement import ADDRESS, Apart
from cudagraph_skill.capture.guest.processes import Notes, Reports, become_reaper, end_with_parent, follow_forks, fork

if TYPE_CHECKING:
    from collections.abc import Sequence


class RankReports(Reports):
    """The socket to the host, for reports of one rank and for agreement with the others."""

    several = True

    def __init__(self, link: socket.socket) -> None:
        super().__init__(link.detach(), forks_end=False)
        self._unread = b""

    def agree(self, name: str, value: Any) -> list[Any]:
        """Send this rank's value, wait until each rank has sent one, and return all.

        Raises:
            Apart: another rank has ended, or came to another point.
        """
        if not self.mine():  # a fork made by user code
            return [value]
        self.send({"event": "agree", "name": name, "value": value})
        answer = self.answer()
        if "values" not in answer:
            raise Apart(answer["verdict"], answer["said"])
        return list(answer["values"])

    def answer(self) -> dict[str, Any]:
        """Wait for the next message of the host; without a host the rank is told to stop."""
        while b"\n" not in self._unread:
            data = os.read(self._fd, 1 << 16)
            if not data:
                return {"verdict": "stopped", "said": "the host of the check ended"}
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def run(arguments: Sequence[str]) -> int:
    """Run the program of this rank in a child and report how that ended; in the child, the exit code is the program's."""
    become_reaper()
    end_with_parent()
    follow_forks()
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"\0{os.environ.pop(ADDRESS)}")
        reports = RankReports(link)
    rank, world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    reports.send({"event": "hello", "rank": rank, "world": world})
    message = reports.answer()
    if "request" not in message:
        return 1
    message["request"]["arguments"] = list(arguments)
    context = server.Context(message, reports, Notes(), message["end"])
    child = fork()
    if not child:
        return server.program(context)
    finished = server.finish(child, context, None)
    return 0 if finished.stopped else finished.exit_code
