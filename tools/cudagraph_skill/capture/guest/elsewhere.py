"""Say where the calls of a target went that was never called: to another process, to a subclass, to what took its place."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import mmap
import os
import resource
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import callees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAMED = 3  # functions that are named at most


class Process:
    """The process that watches the target. Forks of it share a byte, in which they say that they called it."""

    def __init__(self) -> None:
        self._pid, self._shared, self._started = os.getpid(), mmap.mmap(-1, 1), _faults_of_children()

    def is_another(self) -> bool:
        """Return whether this is a fork of the process, and make a note of it for that one."""
        if os.getpid() == self._pid:
            return False
        self._shared[0] = 1
        return True

    @property
    def called(self) -> bool:
        """Return whether a fork called the target."""
        return bool(self._shared[0])

    @property
    def words(self) -> str:
        """Return whether other processes may have made the calls, as half a sentence; "" if there were none."""
        if self.called:
            return "a process that the program forked calls it, and only the first one is watched: have it run there"
        started = _faults_of_children() > self._started
        return "calls in the processes that the program started are not seen" if started else ""


def _faults_of_children() -> int:
    """Return a number that grows with each process that was started and waited for."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def hint(module: str, path: str, name: str, mark: str, called: bool = False) -> str:
    """Return as half a sentence what there was to call in place of a target, as targets; "" if nothing was.

    `module`, `path` and `name` are those of the target, `mark` is an attribute of the watched function. A subclass does not count
    if the target was `called`, as by its `super()`.
    """
    with contextlib.suppress(Exception):  # objects of the user's may raise whatever they are asked
        return _hint(module, path, name, mark, called)
    return ""


def _hint(module: str, path: str, name: str, mark: str, called: bool) -> str:
    owner, last = _place(_module(module, path), name)
    found = {
        f"{last} is now": _options([vars(owner).get(last)] if owner is not None else [], mark),
        f"an object has a {last} of its own:": _options(_of_objects(owner, last), mark),
        f"a subclass defines {last} itself:": _options([] if called else _overrides(owner, last), mark),
    }
    return next((f"{words} {', '.join(options[:_NAMED])}" for words, options in found.items() if options), "")


def _module(module: str, path: str) -> Any:
    """Return the module of a target: the one of this file, else one with this name, else the program itself."""
    main = sys.modules.get("__main__")
    if not path:
        return sys.modules.get(module) or main
    files = ((each, getattr(each, "__file__", None)) for each in [main, *sys.modules.values()])
    return next((each for each, file in files if isinstance(file, str) and os.path.realpath(file) == path), main)


def _place(module: Any, name: str) -> tuple[Any, str]:
    """Return the class or module that has a target, and the target's name there; of a class it is what calls it."""
    *outer, last = name.split(".")
    owner = functools.reduce(lambda inside, part: getattr(inside, part, None), outer, module)
    target = getattr(owner, last, None)
    if isinstance(target, type):
        return target, "forward" if "forward" in vars(target) else "__call__"
    return owner if hasattr(owner, "__dict__") else None, last


def _options(functions: Iterable[Any], mark: str) -> list[str]:
    """Return what of these functions is not watched, each once."""
    plain = [getattr(function, "__func__", function) for function in functions]
    return list(dict.fromkeys(filter(None, (_option(function) for function in plain if not hasattr(function, mark)))))


def _option(function: Any) -> str:
    """Return a function as an option, or where it is if it has no name; "" if it is an object of another kind."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if not isinstance(code, CodeType):
        return ""
    if code.co_name.startswith("<"):
        return f"a {code.co_name.strip('<>')} ({code.co_filename}:{code.co_firstlineno})"
    name = str(getattr(function, "__qualname__", code.co_name)).replace("<locals>.", "")
    return f"`--target {callees.named(name, getattr(function, '__module__', None) or '__main__')}`"


def _overrides(owner: Any, name: str) -> Iterator[Any]:
    """Return what subclasses define under the same name."""
    below: Any
    for below in type.__subclasses__(owner) if isinstance(owner, type) else ():
        if name in vars(below):
            yield vars(below)[name]
        yield from _overrides(below, name)


def _of_objects(owner: Any, name: str) -> Iterator[Any]:
    """Return what objects of a class have under a name of their own, as after `model.forward = patched`."""
    for each in gc.get_objects() if isinstance(owner, type) else ():
        if owner in type(each).__mro__ and name in getattr(each, "__dict__", ()):
            yield vars(each)[name]
