"""The host's end of the sockets to the ranks of a program: collects what each reports, and lets them agree."""

from __future__ import annotations

import itertools
import json
import secrets
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field
from os import getuid
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture import reports

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

GRACE = 5.0  # seconds that a rank has to end after another did: one that waits for it in a collective never does
_MOST = 1 << 16  # bytes that are read at once
_EVENTS = {
    **reports.EVENTS,
    "hello": {"rank": int, "world": int},
    "agree": {"name": str},
}


@dataclass
class Rank:
    """What one rank reported, in the words of `host.Ended`.

    A `draft` stands in for a result that does not come. `order` says as how-manieth it was over, 0 for not at all. `waiting`
    has its value while it waits for the others, `point` is what they have not come to with it.
    """

    number: int
    link: socket.socket
    unfinished: bytes = b""
    result: dict[str, Any] | None = None
    draft: dict[str, Any] | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)
    ended: dict[str, Any] | None = None
    waiting: list[Any] = field(default_factory=list)
    point: str = ""
    order: int = 0
    unread: int = 0

    @property
    def answer(self) -> dict[str, Any] | None:
        """Return its result, or the draft of one that it could not finish."""
        return self.result or self.draft

    @property
    def agreed(self) -> bool:
        """Return whether its verdict is one that all ranks came to together."""
        return self.answer is not None and self.answer.get("agreed") is True


class Hub:
    """Listens for the ranks of one program, all on this machine."""

    def __init__(self, request: dict[str, Any], deadline: float) -> None:
        """Listen; each rank is given `request`, and has to end within `deadline` seconds from now."""
        self._message = {"id": 1, "request": request, "deadline": deadline, "memory": 0, "end": time.monotonic() + deadline}
        self._go_on = bool(request.get("go_on"))
        self._socket = socket.socket(socket.AF_UNIX)
        self.address = f"cudagraph-skill-{secrets.token_hex(16)}"
        self._socket.bind(f"\0{self.address}")  # of no file system: it goes with this process, however that ends
        self._socket.listen()
        self._socket.setblocking(False)
        self._new: list[tuple[socket.socket, bytes]] = []  # that have not said which rank they are
        self._counter = itertools.count(1)
        self._last_over = 0.0
        self.ranks: dict[int, Rank] = {}
        self.world = 0
        self.unread = 0  # lines of connections that are no rank's

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for link in [self._socket, *(link for link, _ in self._new), *(rank.link for rank in self.ranks.values())]:
            link.close()

    def descriptors(self) -> list[int]:
        """Return what becomes readable when there is something to `look` for."""
        links = [self._socket, *(link for link, _ in self._new), *(rank.link for rank in self.ranks.values())]
        return [link.fileno() for link in links if link.fileno() >= 0]

    def look(self) -> list[dict[str, Any]]:
        """Take what arrived, answer who waits, and return what the first rank says about its progress."""
        self._accept()
        said: list[dict[str, Any]] = []
        for rank in sorted(self.ranks.values(), key=lambda each: each.number):
            for event in self._read(rank):
                said += [event] if event["event"] == "progress" and rank.number == min(self.ranks) else []
                self._take(rank, event)
        self._settle()
        return said

    def is_over(self) -> bool:
        """Return whether nothing more is to be waited for: a rank is over and the others stay behind, or all have a verdict."""
        if not self._last_over or (self._go_on and len(self._having_results()) == self.world):
            return False
        return time.monotonic() > self._last_over + GRACE

    def first(self) -> Rank | None:
        """Return the rank that was over first; None if none is."""
        return min((rank for rank in self.ranks.values() if rank.order), key=lambda rank: rank.order, default=None)

    def steps(self, number: int) -> list[dict[str, Any]]:
        """Return the steps of a rank."""
        return self.ranks[number].steps if number in self.ranks else []

    def unread_lines(self) -> int:
        """Count the lines that are no reports."""
        return self.unread + sum(rank.unread for rank in self.ranks.values())

    def _having_results(self) -> list[Rank]:
        return [rank for rank in self.ranks.values() if rank.result is not None]

    # Connections

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except BlockingIOError:
                break
            _, user, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user != getuid():
                link.close()
                continue
            link.setblocking(False)
            self._new.append((link, b""))
        waiting, self._new = self._new, []
        for link, before in waiting:
            self._greet(link, before)

    def _greet(self, link: socket.socket, before: bytes) -> None:
        """Read which rank a connection is; what is none, or was there before, is closed and counted."""
        data = _received(link)
        text = before + (data or b"")
        line, newline, rest = text.lstrip(b"\n").partition(b"\n")
        if not newline and data != b"" and len(text) < _MOST:
            self._new.append((link, text))
            return
        hello = reports.parsed(line, _EVENTS)
        if hello is None or hello["event"] != "hello" or hello["rank"] in self.ranks:
            self.unread += bool(line)
            link.close()
            return
        self.world = self.world or hello["world"]
        self.ranks[hello["rank"]] = Rank(hello["rank"], link, rest)
        _send(link, self._message)

    def _read(self, rank: Rank) -> list[dict[str, Any]]:
        events: list[dict[str, Any] | None] = []
        while rank.link.fileno() >= 0:
            data = _received(rank.link)
            if data is None:
                break
            *lines, rank.unfinished = (rank.unfinished + data).split(b"\n")
            if len(rank.unfinished) > reports.LONGEST:
                lines, rank.unfinished = [*lines, rank.unfinished], b""
            events += [reports.parsed(line, _EVENTS) for line in lines if line.strip()]
            if not data:
                rank.link.close()
                self._over(rank)
        rank.unread += events.count(None)
        return [event for event in events if event]

    # Agreement

    def _take(self, rank: Rank, event: dict[str, Any]) -> None:
        kind = event["event"]
        content = {name: value for name, value in event.items() if name != "event"}
        if kind == "agree":
            rank.waiting, rank.point = [event.get("value")], event["name"]
        elif kind == "step":
            rank.steps.append(content)
        elif kind == "draft":
            rank.draft = content
        elif kind == "result":
            rank.result = content
            self._over(rank)
        elif kind == "ended":
            rank.ended = {name: value for name, value in content.items() if name != "id"}
            self._over(rank)

    def _over(self, rank: Rank) -> None:
        if not rank.order:
            rank.order, self._last_over = next(self._counter), time.monotonic()

    def _settle(self) -> None:
        """Answer the ranks that wait: with all values once all have come to the same point, or with why they cannot."""
        waiting = [rank for rank in self.ranks.values() if rank.waiting and not rank.ended]
        first = self.first()
        if waiting and first is not None:
            self._answer(waiting, {"verdict": "stopped", "said": f"stopped, because rank {first.number} ended first"})
        elif waiting and len(waiting) == self.world:
            ordered = sorted(waiting, key=lambda rank: rank.number)
            if len({rank.point for rank in ordered}) == 1:
                self._answer(waiting, {"values": [value for rank in ordered for value in rank.waiting]})
                for rank in ordered:
                    rank.point = ""
            else:
                self._answer(waiting, {"verdict": "misuse", "said": _apart(ordered)})

    @staticmethod
    def _answer(waiting: list[Rank], message: dict[str, Any]) -> None:
        for rank in waiting:
            rank.waiting = []
            _send(rank.link, message)


def _apart(ranks: list[Rank]) -> str:
    """Return a sentence about ranks that came to different points."""
    came = ", ".join(f"rank {rank.number} to {rank.point}" for rank in ranks)
    return f"the ranks go different ways: {came}; each rank has to call the target equally often"


def _received(link: socket.socket) -> bytes | None:
    """Read what is there: None if there is nothing, b"" at the end."""
    try:
        return link.recv(_MOST)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _send(link: socket.socket, message: dict[str, Any]) -> None:
    """Write one line; to a rank that has ended meanwhile, nothing."""
    with suppress(OSError):
        link.setblocking(True)
        link.settimeout(GRACE)
        link.sendall(f"{json.dumps(message)}\n".encode())
    with suppress(OSError):
        link.setblocking(False)
