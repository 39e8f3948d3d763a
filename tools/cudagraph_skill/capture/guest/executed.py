"""Follow which of the user's lines run: where two calls part, and what a call passed over, so that it was not tried."""

from __future__ import annotations

import contextlib
import difflib
import sys
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

_MOST = 2000  # lines of a file that are told, and of two trails that are compared
_LONGEST = 200_000  # lines of a trail

Trail = list[stack.Place]  # each of the user's lines that a call ran, in order


class Lines:
    """The lines that ran in the functions of the user's files that were called."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self._ran: set[tuple[str, int]] = set()
        self._trail: Trail = []

    @contextlib.contextmanager
    def followed(self) -> Iterator[Trail]:
        """Follow the lines of this thread and yield their trail; a tracer of the user's, such as a debugger, keeps its place."""
        self._trail = []
        if sys.gettrace() is not None:
            yield self._trail
            return
        sys.settrace(self._called)
        try:
            yield self._trail
        finally:
            if sys.gettrace() != self._called:  # the call set its own
                self._codes.clear()
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
            if len(self._trail) < _LONGEST:
                self._trail.append(stack.Place(frame.f_code.co_filename, frame.f_lineno, stack.qualified(frame.f_code)))
        return self._line


def parting(first: Trail, second: Trail) -> stack.Place | None:
    """Return the last line that two trails share before they part for good; None if they do not.

    Lines that both run at their ends, such as those of a helper that both ways call, come after that.
    """
    if first == second:
        return None
    while first and second and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    if not first or not second:
        return None
    blocks = difflib.SequenceMatcher(None, first[-_MOST:], second[-_MOST:], autojunk=False).get_matching_blocks()
    shared = [block for block in blocks if block.size]
    return first[-_MOST:][shared[-1].a + shared[-1].size - 1] if shared else None
