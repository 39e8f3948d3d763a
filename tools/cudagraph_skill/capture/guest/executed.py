"""Follow which of the user's lines run, to tell those that a call passed over: what stands there was not tried."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_MOST = 2000  # lines of a file that are told


class Lines:
    """The lines that ran in the functions of the user's files that were called."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self._ran: set[tuple[str, int]] = set()

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Follow the lines of this thread; a tracer of the user's, such as a debugger, keeps its place."""
        if sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)

    def passed_over(self) -> dict[str, list[int]]:
        """Return by file the lines that did not run of functions that did."""
        found: dict[str, set[int]] = {}
        for code in self._codes:
            lines = {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
            found.setdefault(code.co_filename, set()).update(lines)
        left = {path: sorted(line for line in lines if (path, line) not in self._ran) for path, lines in found.items()}
        return {path: lines[:_MOST] for path, lines in left.items() if lines}

    def _called(self, frame: FrameType, *_: Any) -> Any:
        if stack.rank(frame.f_code.co_filename) < 2:
            return None
        self._codes.add(frame.f_code)
        return self._line

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._ran.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line
