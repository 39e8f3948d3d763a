"""Bounds on what clients may have under way: requests of one client, and threads, which cannot be ended."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

BUSY = -32000  # JSON-RPC leaves -32099 to -32000 to servers
REQUESTS = 64  # of one client, under way at once
_LISTENING = 16  # requests that stay open until their clients go, of all clients
_ALWAYS = {"initialize", "ping", "server/discover"}
_LISTEN = "subscriptions/listen"
_THREADS = 8  # at once: what they do takes milliseconds
DEADLINE = 60.0  # seconds of a tool that runs in a thread; building the index takes 3, waiting for another process up to 30


class Admission:
    """Refuses a request of a client that has too many under way, with an error that says so; a middleware of the server."""

    def __init__(self, most: int = REQUESTS) -> None:
        self._most = most
        self._under_way: Counter[tuple[str, bool]] = Counter()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer, or refuse with the code BUSY."""
        if ctx.request_id is None or ctx.method in _ALWAYS:
            return await call_next(ctx)
        listens = ctx.method == _LISTEN
        most, client = (_LISTENING, ("", True)) if listens else (self._most, (_client(ctx), False))
        if self._under_way[client] >= most:
            raise MCPError(BUSY, f"{most} such requests are under way: wait for an answer before the next")
        self._under_way[client] += 1
        try:
            return await call_next(ctx)
        finally:
            self._under_way[client] -= 1
            if not self._under_way[client]:
                del self._under_way[client]


def _client(context: ServerRequestContext[Any, Any]) -> str:
    """Return the session of a request over HTTP, else its connection; "" over stdio, where there is one client."""
    request = context.request
    if request is None:
        return ""
    session: str = request.headers.get("mcp-session-id", "")
    return session or f"{request.client.host}:{request.client.port}" if request.client else session


class Threads:
    """Runs functions in threads, a bounded number at once; one that is given up keeps its place until it ends."""

    def __init__(self, most: int = _THREADS, deadline: float = DEADLINE) -> None:
        self._free, self._deadline = anyio.Semaphore(most), deadline
        self._limiter = anyio.CapacityLimiter(most)

    def tool(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Return a tool that runs `function` in a thread, and answers at the deadline at the latest."""

        @functools.wraps(function)
        async def run(**arguments: Any) -> Any:
            return await self.run(partial(function, **arguments))

        return run

    async def run(self, work: Callable[[], Any], deadline: float | None = None) -> Any:
        """Return what `work` returns, within `deadline` seconds if given; where this is cancelled, nobody waits for it.

        Raises:
            ToolError: it took too long, or no thread was free for too long.
        """
        seconds = self._deadline if deadline is None else deadline
        with anyio.move_on_after(seconds):
            await self._free.acquire()
            held = _Held(work, self._free)
            try:
                return await anyio.to_thread.run_sync(held.run, abandon_on_cancel=True, limiter=self._limiter)
            finally:
                held.give_up()
        raise ToolError(f"this did not end within {seconds:g} s: ask for less at once, or try again")


class _Held:
    """Work that holds a place, which is free again when it has ended, or when it was given up before it began."""

    def __init__(self, work: Callable[[], Any], place: anyio.Semaphore) -> None:
        self._work, self._place = work, place
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._is_begun = self._is_given_up = False

    def run(self) -> Any:
        with self._lock:
            if self._is_given_up:
                return None
            self._is_begun = True
        try:
            return self._work()
        finally:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._place.release)

    def give_up(self) -> None:
        """Free the place of work that has not begun, and now does not; that which has frees it itself."""
        with self._lock:
            self._is_given_up = True
            if not self._is_begun:
                self._place.release()
