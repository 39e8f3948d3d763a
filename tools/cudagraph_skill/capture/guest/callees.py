"""Watch one call for the functions that it calls again and again: those a graph could hold, where the call itself comes once."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_OFTEN = 3  # calls from which on a function counts
_OWN, _SHOWN = 3, 4  # functions of the user's own that are named at most, and all together
_PART, _SAME = 0.1, 0.8  # of the time of the longest: what is worth a graph; what is one chain of calls with it
_STEPS = ("step", "train_batch", "forward_backward")  # in the names of a library's functions that are called for each batch
_BACKWARD = "backward"  # part of a step in any library, never all of it
_NOT_CALLED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # a call of such computes nothing
_LOADING = os.path.join("torch", "utils", "data", "")
_IGNORED, _IN_LIBRARY, _IN_PROJECT, _LOADS = range(4)


class Callee(NamedTuple):
    """A function that was called: `target` is what `--target` takes, `seconds` the time in it and below it.

    The first call does not count in `seconds`: it imports, compiles and allocates. `own` are the user's functions.
    """

    target: str
    code: CodeType
    calls: int
    seconds: float
    own: bool

    @property
    def words(self) -> str:
        """Return it as an option, with how often it was called."""
        each = 1e3 * self.seconds / (self.calls - 1)
        return f"`--target {self.target}` ({self.calls} times, {each:{'.0f' if each >= 10 else '.2g'}} ms each)"


class Watched:
    """Counts the calls of the user's functions, and of steps of libraries, and the time in them; not those that load data."""

    def __init__(self) -> None:
        self._calls: dict[CodeType, int] = {}
        self._times: dict[CodeType, float] = {}
        self._names: dict[CodeType, str] = {}
        self._kinds: dict[CodeType, int] = {}
        self._open: list[tuple[CodeType, float]] = []
        self._loading = 0  # functions of torch.utils.data that are open
        self._ways: dict[CodeType, list[tuple[str, str]]] = {}  # functions of libraries that lead from the target to another

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what this thread calls within, unless another profiler does."""
        if sys.getprofile() is not None:
            yield
            return
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._open.clear()

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        kind = self._kinds.get(code)
        if kind is None:
            kind = self._kinds[code] = _kind(code)
        if kind == _LOADS:
            self._loading = max(self._loading + (1 if event == "call" else -1), 0)
        elif kind != _IGNORED and not self._loading:
            (self._called if event == "call" else self._returned)(code, frame)

    def _called(self, code: CodeType, frame: FrameType) -> None:
        self._calls[code] = self._calls.get(code, 0) + 1
        if self._calls[code] == 1:
            self._names[code] = _target(code, frame)
        elif self._calls[code] == _OFTEN:
            self._ways[code] = _libraries(frame)
        self._open.append((code, time.perf_counter()))

    def _returned(self, code: CodeType, _: FrameType) -> None:
        if self._open and self._open[-1][0] is code:
            spent = time.perf_counter() - self._open.pop()[1]
            self._times[code] = self._times[code] + spent if code in self._times else 0.0

    def often(self, without: CodeType | None = None) -> list[Callee]:
        """Return the functions that were called often and take a good part of the time: the user's, then those of libraries."""
        found = [self._callee(code) for code, calls in self._calls.items() if calls >= _OFTEN and code is not without]
        named = sorted(filter(_is_step, found), key=lambda it: -it.seconds)
        worth = [it for it in named if it.seconds >= _PART * named[0].seconds]
        own = [it for it in worth if it.own][:_OWN]
        return _outermost([*own, *(it for it in worth if not it.own)], len(own))[:_SHOWN]

    def libraries(self, often: list[Callee]) -> list[dict[str, str]]:
        """Return the functions of libraries that lead to these, outermost first, then the steps of libraries below them."""
        ways = [place for it in often for place in self._ways[it.code]]
        steps = [(code.co_filename, stack.qualified(code)) for code in self._ways if self._kinds[code] == _IN_LIBRARY]
        return [{"path": path, "function": name} for path, name in dict.fromkeys([*ways, *steps])]

    def _callee(self, code: CodeType) -> Callee:
        return Callee(self._names[code], code, self._calls[code], self._times.get(code, 0.0), self._kinds[code] == _IN_PROJECT)


def _is_step(callee: Callee) -> bool:
    """Return whether a target makes sense: of a library only what is public and more than a backward pass."""
    name = callee.code.co_name
    return callee.own or (any(word in name for word in _STEPS) and not name.startswith("_"))


def _outermost(callees: list[Callee], own: int) -> list[Callee]:
    """Leave out, after the first `own`, what only leads to one before it or from it: called as often, and as long."""
    kept = callees[:own]
    for callee in callees[own:]:
        alike = [it for it in kept if it.calls == callee.calls]
        if not any(_SAME * max(it.seconds, callee.seconds) <= min(it.seconds, callee.seconds) for it in alike):
            kept.append(callee)
    return kept


def _kind(code: CodeType) -> int:
    kind = stack.rank(code.co_filename)
    if kind == 0 and _LOADING in code.co_filename:
        return _LOADS
    if code.co_name.startswith("<") or code.co_flags & _NOT_CALLED:
        return _IGNORED
    if kind == 1:
        return _IN_LIBRARY if any(word in code.co_name for word in (*_STEPS, _BACKWARD)) else _IGNORED
    return _IN_PROJECT if kind == 2 else _IGNORED


def _libraries(frame: FrameType | None) -> list[tuple[str, str]]:
    """Return the functions of libraries that called a frame, outermost first, as far as the target."""
    found: list[tuple[str, str]] = []
    while frame is not None and not stack.ours(frame.f_code.co_filename):
        if stack.rank(frame.f_code.co_filename) == 1:
            found.append((frame.f_code.co_filename, stack.qualified(frame.f_code)))
        frame = frame.f_back
    return found[::-1]


def _target(code: CodeType, frame: FrameType) -> str:
    name = stack.qualified(code)
    if not hasattr(code, "co_qualname"):  # before Python 3.11
        name = next((f"{owner.__qualname__}.{name}" for owner in _classes(code, frame) if _defines(owner, name, code)), name)
    return named(name, frame.f_globals.get("__name__", ""))


def _classes(code: CodeType, frame: FrameType) -> tuple[type, ...]:
    return type(frame.f_locals.get("self")).__mro__ if "self" in code.co_varnames[:1] else ()


def _defines(owner: type, name: str, code: CodeType) -> bool:
    return getattr(inspect.unwrap(vars(owner).get(name) or owner), "__code__", None) is code


def named(name: str, module: str) -> str:
    """Return a qualified name in a module as `--target` takes it."""
    return name if module == "__main__" else f"{module}:{name}"


def described(often: list[Callee]) -> str:
    """Return what was called often as half a sentence that names targets; "" if nothing was."""
    return f"name one of the functions that it calls again and again: {', '.join(it.words for it in often)}" if often else ""
