"""Find the user's lines: frames of a stack or a traceback without those of torch, the standard library and this package."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_OURS = os.path.dirname(os.path.realpath(__file__))
_LIBRARY = ("site-packages", "dist-packages")
_seen: dict[str, int] = {}


class Place(NamedTuple):
    """A source line: `path` is the file as Python compiled it, `line` is 1-based."""

    path: str
    line: int
    function: str


class Frame(NamedTuple):
    """A frame of the stack with the object whose method it is (`owner`: the identity of its `self`, or 0)."""

    path: str
    line: int
    function: str
    owner: int

    @property
    def place(self) -> Place:
        """Return the source line of the frame."""
        return Place(self.path, self.line, self.function)


def rank(path: str) -> int:
    """2 for a file of the user's own project, 1 for an installed package, 0 for torch, the standard library and ourselves."""
    found = _seen.get(path)
    if found is None:
        found = _seen[path] = _rank(path)
    return found


def _rank(path: str) -> int:
    if path.startswith("<") or not path.endswith((".py", ".ipynb")):
        return 0
    real = os.path.realpath(path)
    parts = real.split(os.sep)
    torch = getattr(sys.modules.get("torch"), "__file__", None) or "/nowhere/"  # it may be built in a folder of the user's
    if real.startswith((_OURS + os.sep, os.path.dirname(os.path.realpath(torch)) + os.sep)):
        return 0
    if any(each in parts for each in _LIBRARY):
        return 1
    standard = {os.path.realpath(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib")}
    return 0 if any(real.startswith(each + os.sep) for each in standard) else 2


def ours(path: str) -> bool:
    """Return whether a file is one of the guest's own."""
    return any(each.startswith(_OURS + os.sep) for each in (path, os.path.realpath(path)))


def of_traceback(trace: TracebackType | None) -> list[Place]:
    """Return the user's frames of a traceback, outermost first; those of installed packages if there are no others."""
    found = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(Place(code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return _best(found)


def here() -> list[Place]:
    """Return the user's frames that led to this call, outermost first; on a thread of autograd those of the main thread."""
    found = _best(_frames(sys._getframe(1)))
    if found or threading.current_thread() is threading.main_thread():
        return found
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    return _best(_frames(main)) if main is not None else []


def stack() -> tuple[Frame, ...]:
    """Return the user's frames that led to this call, outermost first, with their objects."""
    frame: FrameType | None = sys._getframe(1)
    if threading.current_thread() is not threading.main_thread() and not any(rank(each.path) == 2 for each in _frames(frame)):
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
    found = []
    while frame is not None:
        code = frame.f_code
        if rank(code.co_filename) == 2:
            owner = id(frame.f_locals.get("self")) if "self" in code.co_varnames[:1] else 0
            found.append(Frame(code.co_filename, frame.f_lineno, code.co_name, owner))
        frame = frame.f_back
    return tuple(found[::-1])


def through(part: str) -> bool:
    """Return whether this call came through a file whose path contains `part`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if part in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _frames(frame: FrameType | None) -> list[Place]:
    found = []
    while frame is not None:
        found.append(Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]


def _best(found: list[Place]) -> list[Place]:
    for wanted in (2, 1):
        chosen = [each for each in found if rank(each.path) == wanted]
        if chosen:
            return chosen
    return []


def via(places: list[Place]) -> list[str]:
    """Format the frames before the last as `file:line in function`."""
    return [f"{os.path.basename(each.path)}:{each.line} in {each.function}" for each in places[:-1]]
