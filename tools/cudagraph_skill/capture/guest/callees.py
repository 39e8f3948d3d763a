"""Watch one call for the functions that it calls again and again: those a graph could hold, where the call itself comes once."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_OFTEN, _SHOWN = 3, 3  # calls from which on a function counts; functions that are named
_PART = 0.2  # of the call's time that a function must take to be worth a graph
_STEPS = ("step", "train_batch", "forward_backward")  # in the names of a library's functions that are called for each batch


class Callee(NamedTuple):
    """A function that was called: `target` is what `--target` takes, `seconds` the time in it and below it."""

    target: str
    path: str
    line: int
    calls: int
    seconds: float


class Watched:
    """Counts the calls of the user's functions, and of steps of libraries, and the time in them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._calls: dict[CodeType, int] = {}
        self._times: dict[CodeType, float] = {}
        self._modules: dict[CodeType, str] = {}
        self._counted: dict[CodeType, bool] = {}
        self._open: list[tuple[CodeType, float]] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what this thread calls within, unless another profiler does."""
        if sys.getprofile() is not None:
            yield
            return
        start = time.perf_counter()
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.seconds += time.perf_counter() - start
            self._open.clear()

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not self._counted.setdefault(code, _is_counted(code)):
            return
        now = time.perf_counter()
        if event == "call":
            self._calls[code] = self._calls.get(code, 0) + 1
            self._modules[code] = frame.f_globals.get("__name__", "")
            self._open.append((code, now))
        elif self._open and self._open[-1][0] is code:
            self._times[code] = self._times.get(code, 0.0) + now - self._open.pop()[1]

    def often(self, without: CodeType | None = None) -> list[Callee]:
        """Return the functions that were called often and take a good part of the time, the longest first."""
        found = [
            Callee(_target(code, self._modules[code]), code.co_filename, code.co_firstlineno, calls, self._times.get(code, 0.0))
            for code, calls in self._calls.items()
            if calls >= _OFTEN and code is not without and self._times.get(code, 0.0) >= _PART * self.seconds
        ]
        return sorted(found, key=lambda callee: -callee.seconds)[:_SHOWN]


def _is_counted(code: CodeType) -> bool:
    kind = stack.rank(code.co_filename)
    return not code.co_name.startswith("<") and (kind == 2 or (kind == 1 and any(word in code.co_name for word in _STEPS)))


def _target(code: CodeType, module: str) -> str:
    name = str(getattr(code, "co_qualname", code.co_name)).replace("<locals>.", "")
    return name if module == "__main__" else f"{module}:{name}"


def described(watched: Watched, without: CodeType | None = None) -> str:
    """Return what was called often as half a sentence that names targets; "" if nothing was."""
    often = watched.often(without)
    parts = [
        f"`{it.target}` {it.calls} times, {100 * it.seconds / max(watched.seconds, 1e-9):.0f} % of its time" for it in often
    ]
    return f"it calls {', '.join(parts)}: `--target {often[0].target}`" if often else ""
