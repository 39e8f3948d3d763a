"""Find the user's lines: frames of a stack or a traceback without those of torch, the standard library and this package."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import sysconfig
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import CodeType, FrameType, TracebackType

_GUEST = os.path.dirname(os.path.realpath(__file__))
_LIBRARY = ("site-packages", "dist-packages")
# Files of torch that only pass a call on; what they call, or what calls them, is the line that matters
_PASSES_ON = re.compile(
    r"nn/modules/(module|container)\.py|_?(ops|tensor|compile|jit_internal|classes|functorch|dynamo)\b|overrides\.py|autograd/"
    r"|utils/(_\w+|_?checkpoint)\b|cuda/(graphs|__init__|streams|memory)\.py|multiprocessing/|distributed/(c10d_logger|run)\.py"
)
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
    if real.startswith((_GUEST + os.sep, os.path.dirname(os.path.realpath(torch)) + os.sep)) or _is_generated(real):
        return 0
    if any(folder in parts for folder in _LIBRARY):
        return 1
    standard = {os.path.realpath(sysconfig.get_path(folder)) for folder in ("stdlib", "platstdlib")}
    return 0 if any(real.startswith(folder + os.sep) for folder in standard) else 2


def _is_generated(path: str) -> bool:
    """Return whether Inductor or Triton wrote a file: its lines are nobody's."""
    caches = [os.environ.get(name, "") for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")]
    known = any(path.startswith(os.path.realpath(cache) + os.sep) for cache in caches if cache)
    return known or any(part.startswith("torchinductor_") for part in path.split(os.sep)) or f"{os.sep}.triton{os.sep}" in path


def ours(path: str) -> bool:
    """Return whether a file is one of the guest's own."""
    return any(place.startswith(_GUEST + os.sep) for place in (path, os.path.realpath(path)))


def _name(code: CodeType) -> str:
    """Return the name of a function; of a library's, with that of its class (from Python 3.11 on): many have a `forward`."""
    if rank(code.co_filename) == 2:
        return code.co_name
    return qualified(code)


def qualified(code: CodeType) -> str:
    """Return the name of a function with that of its class, which Python 3.10 does not know."""
    return str(getattr(code, "co_qualname", code.co_name)).replace("<locals>.", "")


def _of_trace(trace: TracebackType | None) -> list[Place]:
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(Place(code.co_filename, trace.tb_lineno, _name(code)))
        trace = trace.tb_next
    return places


def of_traceback(trace: TracebackType | None) -> list[Place]:
    """Return the user's frames of a traceback, outermost first.

    Without one they are those that led to this call, as of a program that calls a target in a library, else those of packages.
    """
    places = _of_trace(trace)
    return _own(places) or _own(_frames(sys._getframe(1))) or _best(places)


def library_of_traceback(trace: TracebackType | None) -> Place | None:
    """Return the deepest library line of a traceback; None if it ends in the user's code."""
    places = _of_trace(trace)
    return _deepest(places) if _own(places) else _inside(places)


def _own(places: list[Place]) -> list[Place]:
    return [place for place in places if rank(place.path) == 2]


def library(without: re.Pattern[str] | None = None) -> Place | None:
    """Return the deepest library line below the user's frames that led to this call; None if the user's code made the call.

    Functions whose name `without` matches are passed over.
    """
    places = _frames(sys._getframe(1))
    return _deepest([place for place in places if without is None or not without.search(place.function)])


def _deepest(places: list[Place]) -> Place | None:
    """Return the innermost place of an installed package below the user's own, else of torch, without what only passes on."""
    own = max((number for number, place in enumerate(places) if rank(place.path) == 2), default=None)
    if own is None:
        return None
    return _inside(places[own + 1 :])


def _inside(places: list[Place]) -> Place | None:
    """Return the innermost place of an installed package, else of torch, without what only passes on."""
    inside = [place for place in places if rank(place.path) == 1] or [place for place in places if _in_torch(place.path)]
    return inside[-1] if inside else None


@functools.cache
def _in_torch(path: str) -> bool:
    """Return whether a file is one of torch that does something itself."""
    torch = os.path.dirname(getattr(sys.modules.get("torch"), "__file__", None) or "/nowhere/") + os.sep
    return path.startswith(torch) and not _PASSES_ON.match(path.removeprefix(torch))


def package(path: str) -> tuple[str, str]:
    """Return name and version of the package that a file belongs to, as far as they are known."""
    parts = os.path.realpath(path).split(os.sep)
    top = next((parts[number + 1] for number, part in enumerate(parts[:-1]) if part in _LIBRARY), "")
    name = "torch" if not top and _in_torch(path) else top.removesuffix(".py")
    return name, str(getattr(sys.modules.get(name), "__version__", "") or _release(name))


def _release(name: str) -> str:
    from importlib import metadata

    with contextlib.suppress(Exception):  # no metadata, or broken
        return metadata.version(name)
    return ""


def here() -> list[Place]:
    """Return the user's frames that led to this call, outermost first; on a thread of autograd those of the main thread."""
    places = _best(_frames(sys._getframe(1)))
    if places or threading.current_thread() is threading.main_thread():
        return places
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    return _best(_frames(main)) if main is not None else []


def stack() -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    """Return the user's frames that led to this call and the library's below them, each outermost first, with their objects."""
    frame: FrameType | None = sys._getframe(1)
    if threading.current_thread() is not threading.main_thread() and not any(rank(place.path) == 2 for place in _frames(frame)):
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
    own: list[Frame] = []
    inside: list[Frame] = []
    while frame is not None:
        path, kind = frame.f_code.co_filename, rank(frame.f_code.co_filename)
        if kind == 2:
            own.append(_with_owner(frame))
        elif not own and (kind == 1 or _in_torch(path)):
            inside.append(_with_owner(frame))
        frame = frame.f_back
    installed = [inner for inner in inside if rank(inner.path) == 1]
    return tuple(own[::-1]), tuple((installed or inside)[::-1]) if own else ()


def _with_owner(frame: FrameType) -> Frame:
    code = frame.f_code
    owner = id(frame.f_locals.get("self")) if "self" in code.co_varnames[:1] else 0
    return Frame(code.co_filename, frame.f_lineno, _name(code), owner)


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
        frames.append(Place(frame.f_code.co_filename, frame.f_lineno, _name(frame.f_code)))
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
