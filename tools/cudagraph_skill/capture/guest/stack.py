"""Find the user's lines: frames of a stack or a traceback without those of torch, the standard library and this package."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_GUEST = os.path.dirname(os.path.realpath(__file__))
_LIBRARY = ("site-packages", "dist-packages")
_ranks: dict[str, int] = {}


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
    if path not in _ranks:
        _ranks[path] = _rank(path)
    return _ranks[path]


def _rank(path: str) -> int:
    if path.startswith("<") or not path.endswith((".py", ".ipynb")):
        return 0
    real = os.path.realpath(path)
    parts = real.split(os.sep)
    torch = getattr(sys.modules.get("torch"), "__file__", None) or "/nowhere/"  # it may be built in a folder of the user's
    if real.startswith((_GUEST + os.sep, os.path.dirname(os.path.realpath(torch)) + os.sep)):
        return 0
    if any(folder in parts for folder in _LIBRARY):
        return 1
    standard = {os.path.realpath(sysconfig.get_path(folder)) for folder in ("stdlib", "platstdlib")}
    return 0 if any(real.startswith(folder + os.sep) for folder in standard) else 2


def ours(path: str) -> bool:
    """Return whether a file is one of the guest's own."""
    return any(place.startswith(_GUEST + os.sep) for place in (path, os.path.realpath(path)))


def of_traceback(trace: TracebackType | None) -> list[Place]:
    """Return the user's frames of a traceback, outermost first; those of installed packages if there are no others."""
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(Place(code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return _best(places)


def here() -> list[Place]:
    """Return the user's frames that led to this call, outermost first; on a thread of autograd those of the main thread."""
    places = _best(_frames(sys._getframe(1)))
    if places or threading.current_thread() is threading.main_thread():
        return places
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    return _best(_frames(main)) if main is not None else []


def stack() -> tuple[Frame, ...]:
    """Return the user's frames that led to this call, outermost first, with their objects."""
    frame: FrameType | None = sys._getframe(1)
    if threading.current_thread() is not threading.main_thread() and not any(rank(place.path) == 2 for place in _frames(frame)):
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
    frames = []
    while frame is not None:
        code = frame.f_code
        if rank(code.co_filename) == 2:
            owner = id(frame.f_locals.get("self")) if "self" in code.co_varnames[:1] else 0
            frames.append(Frame(code.co_filename, frame.f_lineno, code.co_name, owner))
        frame = frame.f_back
    return tuple(frames[::-1])


def through(part: str) -> bool:
    """Return whether this call came through a file whose path contains `part`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if part in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _frames(frame: FrameType | None) -> list[Place]:
    frames = []
    while frame is not None:
        frames.append(Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return frames[::-1]


def _best(places: list[Place]) -> list[Place]:
    for wanted in (2, 1):
        chosen = [place for place in places if rank(place.path) == wanted]
        if chosen:
            return chosen
    return []


def via(places: list[Place]) -> list[str]:
    """Format the frames before the last as `file:line in function`."""
    return [f"{os.path.basename(place.path)}:{place.line} in {place.function}" for place in places[:-1]]
