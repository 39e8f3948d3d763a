"""Calls of one function in a whole program, eager or replayed from a graph, and what came of them.

    python programs_lockstep.py {eager,again,moved,graph} ROOT TARGET FILE -- python train.py ARGUMENT ...

writes a dict to FILE: results, held, error, calls, live. Written as one would by hand, with torch alone. The function or method
is replaced behind its definition. Its first three calls pass; what happens in the six after them, of the signature of
the fourth, depends on the way: eager calls, or a capture with the arguments of the fourth, replays with those of the others
copied into them, and the static results given to the program. Where results have gradients, no program can go on with static
ones: then the six calls pass in each way, their arguments are kept, and the function is called or replayed with them after the
sixth. ROOT is the folder of the program: the deepest line below it is that of an error.
"""

from __future__ import annotations

import ast
import copy
import dis
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import random
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent / "library"))
lockstep: Any = importlib.import_module("lockstep")

if TYPE_CHECKING:
    from collections.abc import Callable

WARM, CALLS = 3, 6
_BOUND = "__bound_by_lockstep__"
_GPU = torch.cuda.is_available()


class Over(BaseException):
    """Ends the program after the last call."""


class UnclearError(Exception):
    """Says why nothing can be compared."""


# Binding the name -----------------------------------------------------------------------------------------------------


class Place:
    """The target: the module that binds it, by file or by name, and its name there."""

    def __init__(self, target: str) -> None:
        self.module, _, self.name = target.rpartition(":")
        self.file = Path(self.module).resolve() if self.module.endswith(".py") else None
        self.first, _, self.rest = self.name.partition(".")

    def is_main(self, path: str) -> bool:
        """Return whether the program itself binds it."""
        return not self.module or (self.file == Path(path).resolve() if self.file else self.module == Path(path).stem)

    def is_in(self, module: Any) -> bool:
        """Return whether an imported module binds it."""
        origin = getattr(module, "__file__", None) or ""
        return Path(origin).resolve() == self.file if self.file else module.__name__ == self.module

    def bound(self, value: Any, watch: Watch) -> Any:
        """Return what the name is to be bound to: the function wrapped, or its class with the method wrapped."""
        if not isinstance(value, type):
            return watch.wrapped(value, method=False) if not self.rest and callable(value) else value
        method = self.rest or ("forward" if hasattr(value, "forward") else "__call__")
        setattr(value, method, watch.wrapped(getattr(value, method), method=True))
        return value


class _Definitions(ast.NodeTransformer):
    """Lets the program bind the name once more behind its definition, to what `_bound` makes of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _again(self, node: Any) -> Any:
        if node.name != self._name:
            return node
        again = ast.parse(f"{self._name} = {_BOUND}({self._name})").body[0]
        return [node, ast.copy_location(again, node)]

    visit_FunctionDef = visit_ClassDef = _again  # noqa: N815 - and nothing within them


class _Finder(importlib.abc.MetaPathFinder):
    """Lets modules be found as ever, and looks at each after it was executed."""

    def __init__(self, place: Place, watch: Watch) -> None:
        self._place, self._watch, self._busy = place, watch, False

    def find_spec(self, name: str, path: Any = None, _target: Any = None) -> Any:
        """Return what the usual finders return, with a look at the module behind its execution."""
        if self._busy or (not self._place.file and name != self._place.module):
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name) if path is None else importlib.machinery.PathFinder.find_spec(name, path)
        finally:
            self._busy = False
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        execute = spec.loader.exec_module

        def executed(module: types.ModuleType) -> None:
            execute(module)
            bind(module, self._place, self._watch)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def bind(module: Any, place: Place, watch: Watch) -> None:
    """Wrap the target in an imported module that has it, and wherever others have taken it from there."""
    if not place.is_in(module) or place.first not in vars(module):
        return
    plain = vars(module)[place.first]
    wrapped = place.bound(plain, watch)
    for other in list(sys.modules.values()):
        if isinstance(other, types.ModuleType) and vars(other).get(place.first) is plain:
            setattr(other, place.first, wrapped)


def run(command: list[str], place: Place, watch: Watch) -> None:
    """Run `python SCRIPT ARGUMENT ...` in this process."""
    path = command[1]
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.argv, sys.modules["__main__"] = command[1:], main
    sys.path.insert(0, str(Path(path).resolve().parent))
    if place.module in sys.modules:
        bind(sys.modules[place.module], place, watch)
    sys.meta_path.insert(0, _Finder(place, watch))
    tree = ast.parse(Path(path).read_bytes(), path)
    if place.is_main(path):
        setattr(main, _BOUND, lambda value: place.bound(value, watch))
        tree = ast.fix_missing_locations(_Definitions(place.first).visit(tree))
    exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)


# The calls ------------------------------------------------------------------------------------------------------------


class Watch:
    """Counts the calls of the target, of one object where it is a method, and records them."""

    def __init__(self, way: str) -> None:
        self.way, self.count, self.alike, self.stage = way, 0, 0, "program"
        self.results: list[dict[str, Any]] = []
        self.live = True
        self._owner: Any = None
        self._objects: list[Any] = []  # among the arguments
        self._inside = False
        self._graded: list[bool] = []  # whether the results of the first calls had gradients
        self._with_grad = False  # whether one of them was made where gradients are kept
        self._signature = ""
        self._given: list[tuple[Any, dict[str, Any]]] = []
        self._function: Callable[..., Any] = print
        self._generator: Any = None
        self._graph: Any = None
        self._static: Any = None
        self._out: Any = None
        self._side = torch.cuda.Stream() if _GPU else None

    def wrapped(self, function: Callable[..., Any], method: bool) -> Callable[..., Any]:
        """Return a function that lets this watch make its calls."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            owner = args[0] if method else None
            if self._inside or (self.count and owner is not self._owner):
                return function(*args, **kwargs)
            self._owner, self._function, self._inside = owner, function, True
            try:
                return self._called(function, args, kwargs)
            finally:
                self._inside = False

        return watched

    def _called(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = tuple(list(each) if _gives_parameters(each) else each for each in args)
        self.count += 1
        if self.count <= WARM:
            self.stage = f"call {self.count}"
            result = self._on_side(function, args, kwargs)
            self._graded.append(any(tensor.requires_grad for tensor in _tensors(result).values()))
            self._with_grad = self._with_grad or torch.is_grad_enabled()
            return result
        if not self._signature:
            self._signature = signature(args, kwargs)
            self._begin(args, kwargs)
        elif signature(args, kwargs) != self._signature:
            return function(*args, **kwargs)
        self.alike += 1
        lockstep.move(_tensors((args, kwargs)).values(), self._generator)
        if self.live:
            result = self._made(args, kwargs)
            self._ended_if(len(self.results) == CALLS)
            return result
        self._given.append((_copied(args), _copied(kwargs)))
        result = function(*args, **kwargs)
        if len(self._given) == CALLS:
            for given, named in self._given:
                self._made(given, named)
            self._ended_if(True)
        return result

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = [leaf for leaf in leaves((args, kwargs)).values() if not isinstance(leaf, torch.Tensor)]
        if any(isinstance(leaf, Iterator) for leaf in given):
            raise UnclearError("an iterator is among the arguments")
        self.live = not torch.is_grad_enabled() or (self._with_grad and not any(self._graded))
        self._objects = [leaf for leaf in given if hasattr(leaf, "__dict__")]
        if self.way == "moved":
            self._generator = torch.Generator("cuda" if _GPU else "cpu").manual_seed(1)
            moved = [each for each in self.reached().values() if isinstance(each, torch.nn.Parameter)]
            lockstep.move(moved, self._generator)

    def _ended_if(self, over: bool) -> None:
        if over:
            self.stage = "end"
            raise Over

    def _on_side(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.way != "graph" or not self._side:
            return function(*args, **kwargs)
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            result = function(*args, **kwargs)
        torch.cuda.current_stream().wait_stream(self._side)
        return result

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call in this way, and record its result."""
        self.stage = f"call {WARM + len(self.results) + 1}"
        if self.way != "graph":
            self._out = self._function(*args, **kwargs)
        elif self._graph is None:
            self.stage = "capture"
            self._static = (_copied(args), _copied(kwargs))
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._out = self._function(*self._static[0], **self._static[1])
            self.stage = "replay"
            self._graph.replay()
        else:
            self.stage = "replay"
            fresh = _tensors((args, kwargs))
            with torch.no_grad():
                for name, tensor in _tensors(self._static).items():
                    tensor.copy_(fresh[name])
            self._graph.replay()
        self.results.append(_values(self._out))
        return self._out

    def reached(self) -> dict[str, Any]:
        """Return the tensors that the target can reach: its object, its closure, the globals that its code names."""
        found = {"self": self._owner, "objects": self._objects, **_globals(self._function)}
        reached: dict[str, Any] = lockstep.tensors([self._function, found])
        return reached


def _globals(function: Any) -> dict[str, Any]:
    """Return the globals that a function names, and those of the functions among them."""
    found: dict[str, Any] = {}
    waiting = [inspect.unwrap(getattr(function, "__func__", function))]
    while waiting:
        function = waiting.pop()
        for name in _named(getattr(function, "__code__", None)):
            value = function.__globals__.get(name)
            if name in found or value is None or isinstance(value, (type, types.ModuleType)):
                continue
            found[name] = inspect.unwrap(value) if isinstance(value, types.FunctionType) else value
            waiting += [found[name]] if isinstance(found[name], types.FunctionType) else []
    return found


def _named(code: Any) -> list[str]:
    """Return the globals that code loads, and the code within it."""
    if not isinstance(code, types.CodeType):
        return []
    loaded = [step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"]
    return [*loaded, *(name for inner in code.co_consts for name in _named(inner))]


# Values ---------------------------------------------------------------------------------------------------------------


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Return what is in containers and plain objects, by path."""
    if isinstance(value, dict):
        parts = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(str(place), part) for place, part in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for key, part in parts for name, leaf in leaves(part, f"{path}.{key}").items()}


def _tensors(value: Any) -> dict[str, torch.Tensor]:
    return {path: leaf for path, leaf in leaves(value).items() if isinstance(leaf, torch.Tensor)}


def _gives_parameters(given: Any) -> bool:
    """Return whether an argument is what `model.parameters()` returns, which serves one call."""
    return isinstance(given, types.GeneratorType) and given.gi_code.co_name == "parameters"


def _values(result: Any) -> dict[str, Any]:
    """Return copies of the tensors and numbers of a result, as tensors on the CPU."""
    held = {**leaves(result), **lockstep.tensors(result)}
    numbers = {path: torch.tensor(float(leaf)) for path, leaf in held.items() if isinstance(leaf, (bool, int, float))}
    plain = {path: leaf for path, leaf in held.items() if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided}
    return {**numbers, **lockstep.copied(plain)}


def _copied(value: Any) -> Any:
    """Return arguments with copies of their tensors."""
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(part) for key, part in value.items()}
    return value


def signature(args: Any, kwargs: Any) -> str:
    """Describe what one graph serves: shapes, dtypes and devices, flags and words, the mode of autograd; numbers by type."""
    said = [f"gradients {torch.is_grad_enabled()}"]
    for path, leaf in leaves((args, kwargs)).items():
        if isinstance(leaf, torch.Tensor):
            said.append(f"{path} {leaf.dtype} {tuple(leaf.shape)} {leaf.device}")
        else:
            said.append(f"{path} {leaf if isinstance(leaf, (bool, str, type(None))) else type(leaf).__name__}")
    return "; ".join(said)


# One process ----------------------------------------------------------------------------------------------------------


def described(error: BaseException, root: Path) -> dict[str, Any]:
    """Return type, message, deepest line of the program, and deepest frame of the error that came first."""
    chain = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) is not None and earlier not in chain:
        chain.append(earlier)
    stacks = [traceback.extract_tb(each.__traceback__) for each in chain]
    within = [frame for stack in stacks for frame in stack if Path(frame.filename).resolve().is_relative_to(root)]
    last = next(stack[-1] for stack in reversed(stacks) if stack)
    return {
        "type": type(chain[-1]).__name__,
        "said": str(chain[-1])[:200],
        "line": f"{Path(within[-1].filename).name}:{within[-1].lineno}" if within else None,
        "deepest": f"{last.filename.partition('-packages/')[2] or Path(last.filename).name}:{last.lineno} {last.name}",
    }


def observe(way: str, root: Path, target: str, command: list[str]) -> dict[str, Any]:
    """Run the program in a way; return the results, what the target reaches afterwards, or how it ended."""
    sys.setrecursionlimit(20000)  # objects of objects are looked through
    random.seed(0)
    torch.manual_seed(0)
    importlib.import_module("numpy").random.seed(0)
    watch, seen = Watch(way), {"results": [], "held": {}, "error": None}  # type: tuple[Watch, dict[str, Any]]
    try:
        run(command, Place(target), watch)
        error: BaseException | None = None
    except BaseException as ended:  # noqa: BLE001 - whatever ends the program is the answer
        error = ended
    if _GPU and (error is None or isinstance(error, Over)):
        torch.cuda.synchronize()
    if error is None or isinstance(error, SystemExit):
        said = f"{watch.count} calls, {watch.alike} like the fourth"
        stage = "few" if watch.count <= WARM else "alike"
        seen["error"] = {"stage": stage, "type": "UnclearError", "said": said, "line": None, "deepest": ""}
    elif not isinstance(error, Over):
        seen["error"] = {"stage": watch.stage, **described(error, root)}
    else:
        seen |= {"results": watch.results, "held": lockstep.copied(watch.reached())}
    return {**seen, "calls": watch.count, "live": watch.live}


if __name__ == "__main__":
    into = Path(sys.argv[4])
    answer = observe(sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[6:])
    torch.save(copy.copy(answer), into.with_suffix(".part"))
    into.with_suffix(".part").replace(into)
    os._exit(0)  # a context that a failed capture has spoilt may not end by itself
