"""Standard input and output as a transport with bounds: a client that sends and does not read makes it wait, not grow.

It ends when standard input closes, or the client has gone, with calls under way too.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

UNANSWERED = 128  # requests that were read and not answered, or whose answers were not read
_BYTES = 16 << 20  # that these requests have together; one may have more
LONGEST = 4 << 20  # bytes of a message
_READ = 1 << 16
_WRITE = 4096  # PIPE_BUF of Linux: a pipe that takes anything takes as much without waiting
_LOOK = 0.5  # seconds between two looks at whether the client has gone, while it is not listened to
_BRIEF = 0.01  # seconds
_PARSE_ERROR, _INVALID = -32700, -32600


@asynccontextmanager
async def bounded_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of the SDK for standard input and output.

    Meanwhile descriptor 0 is the null device and 1 is standard error, so that what is printed or started reaches no client.
    """
    theirs, ours = _claimed(0), _claimed(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2 if _is_open(2) else nothing, 1)
    os.close(nothing)
    unanswered = _Unanswered()
    output = _Output(ours, unanswered)
    try:
        async with stdio_server(_Input(theirs, output, unanswered), output) as streams:  # type: ignore[arg-type]
            yield streams
    except* _Gone:
        pass


def _claimed(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class _Gone(Exception):  # noqa: N818 - a signal, not an error
    """The client has gone."""


class _Unanswered:
    """Requests that were read and whose answers were not yet written."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._changed = anyio.Event()

    def add(self, name: object, size: int) -> None:
        self._sizes[_key(name)] = size

    def remove(self, name: object) -> None:
        if self._sizes.pop(_key(name), None) is not None:
            self._changed.set()
            self._changed = anyio.Event()

    def is_full(self) -> bool:
        return len(self._sizes) >= UNANSWERED or sum(self._sizes.values()) >= _BYTES

    async def change(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._changed.wait()


def _key(name: object) -> str:
    """Return the id of a request; a client may cancel 7 as "7"."""
    return str(name)


class _Input:
    """Lines of standard input, each a valid message; what is none is answered here."""

    def __init__(self, fd: int, output: _Output, unanswered: _Unanswered) -> None:
        self._fd, self._output, self._unanswered = fd, output, unanswered
        self._waits = _may_wait(fd)
        self._read = bytearray()
        self._ended = False

    def __aiter__(self) -> _Input:
        return self

    async def __anext__(self) -> str:
        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except (ValidationError, ValueError, RecursionError):
                await self._output.say(_refusal(line))
                continue
            if isinstance(message, mcp_types.JSONRPCRequest):
                if not await self._has_room():
                    break
                self._unanswered.add(message.id, len(line))
            elif isinstance(message, mcp_types.JSONRPCNotification) and message.method == "notifications/cancelled":
                self._unanswered.remove((message.params or {}).get("requestId"))
            return line.decode("utf-8", "replace")
        raise StopAsyncIteration

    async def _has_room(self) -> bool:
        """Wait until one more request may be under way; False where the client has gone."""
        while self._unanswered.is_full():
            await self._unanswered.change(_LOOK)
            if self._unanswered.is_full() and _has_hung_up(self._fd):
                return False
        return True

    async def _line(self) -> bytes | None:
        """Return the next line; None at the end. One that is too long is refused, and passed over."""
        looked_at = 0
        while True:
            end = self._read.find(b"\n", looked_at)
            if end >= 0:
                line = bytes(self._read[:end])
                del self._read[: end + 1]
                return line
            looked_at = len(self._read)
            if looked_at > LONGEST:
                await self._pass_over()
                await self._output.say(
                    _error(None, _INVALID, f"the message is longer than {LONGEST >> 20} MB: send less at once")
                )
                looked_at = 0
            elif not await self._more():
                return bytes(self._read) if self._take_rest() else None

    def _take_rest(self) -> bool:
        """Return whether a last line without an end is to be read."""
        rest, self._ended = bool(self._read.strip()) and not self._ended, True
        return rest

    async def _pass_over(self) -> None:
        while (end := self._read.find(b"\n")) < 0:
            self._read.clear()
            if not await self._more():
                return
        del self._read[: end + 1]

    async def _more(self) -> bool:
        """Read what is there, or wait for it; False at the end."""
        if self._ended:
            return False
        if self._waits:
            await anyio.wait_readable(self._fd)
        else:
            await anyio.sleep(0)
        try:
            data = os.read(self._fd, _READ)
        except BlockingIOError:  # another process made it so, and took what there was
            return True
        except OSError:
            return False
        self._read += data
        return bool(data)


class _Output:
    """Standard output; each line is written whole."""

    def __init__(self, fd: int, unanswered: _Unanswered) -> None:
        self._fd, self._unanswered = fd, unanswered
        self._waits = _may_wait(fd)
        self._one = anyio.Lock()

    async def write(self, line: str) -> None:
        """Write a message of the server.

        Raises:
            _Gone: nobody reads it.
        """
        await self.say(line)
        message = json.loads(line)
        if "method" not in message:
            self._unanswered.remove(message.get("id"))

    async def flush(self) -> None:
        """Do nothing: all is written."""

    async def say(self, line: str) -> None:
        async with self._one:
            rest = memoryview(line.encode("utf-8", "replace"))
            while rest:
                if self._waits:
                    await anyio.wait_writable(self._fd)
                try:
                    rest = rest[os.write(self._fd, rest[:_WRITE]) :]
                except BlockingIOError:  # another process made it so, and there is less room than for a piece
                    await anyio.sleep(_BRIEF)
                except OSError:
                    raise _Gone from None


def _may_wait(fd: int) -> bool:
    """Return whether reading and writing may have to wait, as with pipes; epoll takes no other descriptors."""
    kind = os.fstat(fd).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(fd)


def _has_hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))


def _refusal(line: bytes) -> str:
    """Return the answer to a line that is no message."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, _PARSE_ERROR, "this line is not JSON: send one JSON-RPC message a line")
    name = given.get("id") if isinstance(given, dict) else None
    known = name if isinstance(name, str | int) and not isinstance(name, bool) else None
    return _error(known, _INVALID, "this is no JSON-RPC request, notification or response: give jsonrpc, id and method")


def _error(name: str | int | None, code: int, message: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": message}}) + "\n"
