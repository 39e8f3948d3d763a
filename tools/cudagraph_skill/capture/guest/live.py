"""Run the user's program unchanged, and check one call of the target in it with its real arguments."""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import time
import types
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.guest import callees, compiled, elsewhere, readiness
from cudagraph_skill.capture.guest.agreement import Apart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudagraph_skill.capture.guest.modes import Modes

SKIPPED, RECORDED = 3, 5  # calls that pass first; calls after them of each signature whose arguments are recorded
_MOST_SIGNATURES, _MOST_RECORDED = 4, 20  # signatures that are checked; calls that are recorded of all together
_WATCH = "__cudagraph_skill_watch__"


class _Stop(BaseException):
    """Unwinds the user's program after the check."""


class Missing(Exception):
    """The target cannot be watched; the message is one sentence."""


def run(request: dict[str, Any], report: Any) -> None:
    """Run `request["arguments"]` (a script or `-m module`, and its arguments) with `request["target"]` watched."""
    target = Target(request)
    watch = Watch(request, report)
    sys.meta_path.insert(0, _Finder(target, watch))
    compiled.follow(watch.around_compiled)
    report.progress(f"running {' '.join(request['arguments'][:2])} until {request['target']} is called")
    try:
        _watched(request, report, target, watch)
    except Apart as error:
        report.result(_without_causes(error.verdict, str(error), request))


def _watched(request: dict[str, Any], report: Any, target: Target, watch: Watch) -> None:
    try:
        _run_main(list(request["arguments"]), target, watch)
    except _Stop:
        return
    except Apart:
        raise
    except Missing as error:
        report.result(_without_causes("misuse", str(error), request))
        return
    except BaseException as error:
        if watch.done:
            raise
        watch.ended(error)
        return
    watch.ended(None)


# The target -----------------------------------------------------------------------------------------------------------


class Target:
    """The module that defines the target and its qualified name there: `train.py:step`, `pkg.mod:Class.method`."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.shown = str(request["target"])
        self.module, _, self.name = self.shown.rpartition(":")
        self.path = os.path.realpath(self.module) if self.module.endswith(".py") else ""

    def is_main(self, path: str, module: str) -> bool:
        """Return whether the program itself is the file or module of the target."""
        if self.path:
            return os.path.realpath(path) == self.path
        return self.module in ("", "__main__", module, f"{module}.__main__", os.path.basename(path).removesuffix(".py"))

    def is_in(self, module: str, path: str) -> bool:
        """Return whether an imported module is the one of the target."""
        return os.path.realpath(path) == self.path if self.path else module == self.module


def marked(source: bytes, path: str, name: str) -> types.CodeType:
    """Compile a module with one function, method or class decorated by the watch.

    Raises:
        Missing: the source has no such definition.
    """
    tree = ast.parse(source, path)
    node = _definition(tree, [part for part in name.split(".") if part != "<locals>"])
    if isinstance(node, ast.ClassDef):
        node = _definition(node, ["forward"]) or _definition(node, ["__call__"])
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise Missing(
            f"{path} defines no {name}: name a function as FILE:FUNCTION or MODULE:FUNCTION, a method as FILE:CLASS.METHOD"
            + (_imported(tree, name.partition(".")[0]) or _inherited(tree, name))
        )
    watch = ast.copy_location(ast.Name(_WATCH, ast.Load()), next(iter(node.decorator_list), node))  # the code begins there
    binding = [n for n, outer in enumerate(node.decorator_list) if isinstance(outer, ast.Name) and outer.id in _BINDING]
    node.decorator_list.insert(binding[-1] + 1 if binding else 0, watch)
    return compile(tree, path, "exec", dont_inherit=True)


_BINDING = ("staticmethod", "classmethod", "property")


def _imported(tree: ast.AST, name: str) -> str:
    """Return from which module a name is imported, as the end of a sentence; "" if it is not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(name in (alias.asname, alias.name) for alias in node.names):
            return f"; {name} is imported from {'.' * node.level}{node.module or ''}"
    return ""


def _inherited(tree: ast.AST, name: str) -> str:
    """Return from which classes a method may be inherited, as the end of a sentence; "" if there are none."""
    owner, _, method = name.rpartition(".")
    outer = _definition(tree, owner.split(".")) if owner else _definition(tree, [name])
    bases = [ast.unparse(base) for base in outer.bases] if isinstance(outer, ast.ClassDef) else []
    return (
        f"; if {owner or name} inherits it from {' or '.join(bases)}, name {method if owner else 'forward'} there"
        if bases
        else ""
    )


def _definition(node: ast.AST, names: Sequence[str]) -> ast.AST | None:
    """Return the definition of a dotted name below a node, in any block."""
    if not names:
        return node
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        inner = waiting.pop(0)
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if inner.name == names[0]:
                return _definition(inner, names[1:])
            continue
        waiting += [child for child in ast.iter_child_nodes(inner) if isinstance(child, (ast.stmt, ast.ExceptHandler))]
    return None


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module of the target as Python would, and marks the target in it."""

    def __init__(self, target: Target, watch: Watch) -> None:
        self._target, self._watch = target, watch

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return what the usual finders return, with our loader for the module of the target."""
        spec = self._usual(name, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader) or not spec.origin:
            return None
        if not self._target.is_in(name, spec.origin):
            return None
        spec.loader = _Loader(name, spec.origin, self._target, self._watch)
        return spec

    def _usual(self, name: str, path: Any, target: Any) -> importlib.machinery.ModuleSpec | None:
        """Ask the finders after this one; an editable installation adds its own."""
        for finder in [other for other in sys.meta_path if other is not self and hasattr(other, "find_spec")]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, target: Target, watch: Watch) -> None:
        super().__init__(name, path)
        self._target, self._watch = target, watch

    def get_code(self, fullname: str) -> types.CodeType:
        """Compile from the source each time, because the cached code has no mark."""
        path = self.get_filename(fullname)
        return marked(self.get_data(path), path, self._target.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Add the watch to the module's names and execute it."""
        setattr(module, _WATCH, self._watch)
        super().exec_module(module)


def _run_main(arguments: list[str], target: Target, watch: Watch) -> None:
    """Run a script or a module as `__main__`, as `python` would."""
    main = types.ModuleType("__main__")
    if arguments[0] == "-m":
        sys.path[0:0] = [os.getcwd()]
        spec = _module_spec(arguments[1])
        path, module, rest = spec.origin or "", arguments[1], arguments[2:]
        main.__spec__, main.__package__ = spec, spec.name.rpartition(".")[0]
    else:
        path, module, rest = arguments[0], "", arguments[1:]
        if not os.path.isfile(path):
            raise Missing(f"there is no program {path}: give the command as you would type it, after --")
        sys.path[0:0] = [os.path.dirname(os.path.realpath(path))]
    sys.argv = [path, *rest]
    path = os.path.abspath(path)
    main.__file__ = path
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    with open(path, "rb") as file:
        source = file.read()
    if target.is_main(path, module):
        setattr(main, _WATCH, watch)
        code = marked(source, path, target.name)
    else:
        code = compile(source, path, "exec", dont_inherit=True)
    exec(code, main.__dict__)  # noqa: S102 - the user asked to run it


def _module_spec(name: str) -> importlib.machinery.ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ImportError:
        spec = None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise Missing(f"there is no module {name} to run: give the command as you would type it, after --")
    return spec


# The watch ------------------------------------------------------------------------------------------------------------


class Watch:
    """Decorator of the target: passes the first calls, records the arguments of the next, then checks, and stops or goes on."""

    def __init__(self, request: dict[str, Any], report: Any) -> None:
        self._request, self._report = request, report
        self._skip = SKIPPED if request.get("skip") is None else int(request["skip"])
        self._owner: Any = None
        self._calls: dict[str, list[_Call]] = {}  # the recorded ones, by signature
        self._passed: dict[str, int] = {}  # how often each signature was seen
        self._earlier: dict[Any, Any] = {}
        self._streams: Any = None  # of the iterators among the arguments
        self._gradients: Any = None
        self._opaque: list[Any] = []  # objects among the arguments that are state
        self._left: dict[str, Any] | None = None  # numbers and flags as the last call left them
        self._between: Any = None  # what the program does to tensors between the calls
        self._count = 0
        self._grouped = False  # whether the first call found a process group
        self._callees = callees.Watched()  # of the first call
        self._process = elsewhere.Process()
        self._inside = False
        self.done = False
        self._function: Callable[..., Any] | None = None

    def __call__(self, function: Callable[..., Any], bound: bool = False) -> Callable[..., Any]:
        """Wrap the target; one that is `bound` is called without its object."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            import torch

            if torch.compiler.is_compiling():  # Dynamo reads no further
                return function(*args, **kwargs)
            if self.done or self._inside or self._process.is_another() or not self._same(function, args, bound):
                return function(*args, **kwargs)
            return self._called(function, args, kwargs)

        setattr(watched, compiled.MARK, True)
        return watched

    def around_compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what torch.compile made of the target."""
        return self(function, bound=hasattr(compiled.plain(function), "__self__"))

    def _same(self, function: Callable[..., Any], args: tuple[Any, ...], bound: bool) -> bool:
        """Return whether this is a method of the same object as in the first call; a model may contain a layer many times."""
        owner = args[0] if args and not bound and _is_method(function, args[0]) else None
        if self._count == 0:
            self._owner, self._function = owner, function
        return owner is self._owner and (owner is not None or _code(function) is _code(self._function))

    def _called(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from cudagraph_skill.capture.guest import between_calls, gradients, modes, state, streams, tensors

        self._count += 1
        self._between = self._between or between_calls.Between()
        self._gradients = self._gradients or gradients.Gradients()
        self._streams = self._streams or streams.Streams(self._gradients.copied)
        self._function = function
        self._grouped = self._grouped or _has_group()
        if 1 < self._count <= self._skip - SKIPPED:  # a look at all that a large model holds takes time
            self._report.agree(f"call {self._count} of the target", None)
            return self._within(function, args, kwargs)
        given = args[1:] if self._owner is not None else args
        self._opaque = tensors.state_among((given, kwargs), self._earlier)
        self._streams.seen(leaf for _, leaf in tensors.leaves((given, kwargs)))
        roots = _roots(function, self._owner, self._opaque)
        under = modes.now(roots)
        called_with = ", ".join(filter(None, (tensors.signature(given, kwargs), under.words)))
        signature = self._report.same(f"call {self._count} of the target", called_with)
        self._passed[signature] = self._passed.get(signature, 0) + 1
        if self._count <= self._skip:
            with self._callees.watching() if self._count == 1 else contextlib.nullcontext():
                return self._within(function, args, kwargs)
        calls = self._calls.setdefault(signature, [])
        given, kwargs_given = self._streams.recorded((given, kwargs))
        self._gradients.seen(gradients.optimized(self._owner))
        given_copy, kwargs_copy = self._gradients.copied((given, kwargs_given))
        calls.append(_Call(roots, given_copy, kwargs_copy, self._left, under))
        calls[-1].given = self._between.given(roots)
        if len(calls) <= RECORDED and sum(map(len, self._calls.values())) <= _MOST_RECORDED:
            start = time.monotonic()
            result = self._within(function, args[: len(args) - len(given)] + given, kwargs_given)
            calls[-1].seconds = time.monotonic() - start
            self._left = state.scalars(roots)
            self._between.left(roots)
            return result
        if self._report.any("whether a call drew from an iterator", self._streams.drawn) or len(calls) == 1:
            del calls[-1]  # it was not made, and drew nothing
        self._check()
        if not self._request.get("go_on"):
            raise _Stop
        return function(*args, **kwargs)

    def _within(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._inside = True
        try:
            return function(*args, **kwargs)
        finally:
            self._inside = False

    def ended(self, error: BaseException | None) -> None:
        """Check with the calls seen when the program ends early, or report that there were none."""
        if self.done:
            return
        if error is not None and not isinstance(error, SystemExit):
            missing = readiness.without_torch()
            if missing:
                self._report.result(_without_causes("lacking", missing, self._request))
                return
            from cudagraph_skill.capture.guest import load, verdict

            self._report.result(verdict.raised(load.Raised("the program", error), self._request))
            return
        if self._grouped and not _has_group():
            said = f"the program closed its process group after {self._count} calls of {self._request['target']}, and the check calls it again: "
            hint = "let it make more calls, or use a smaller `--skip`"
            self._report.result(_without_causes("misuse", said + hint, self._request))
            return
        if self._calls:
            self._check()
            return
        calls = f"was called {self._count} time{'s' * (self._count > 1)}" if self._count else "was never called"
        often = self._callees.often(_code(self._function)) if self._count else []
        hint = callees.described(often) or self._hint()
        said = f"the program ended, and {self._request['target']} {calls}: {hint}"
        libraries = self._callees.libraries(often)
        self._report.result({**_without_causes("misuse", said, self._request), "libraries": libraries})

    def _hint(self) -> str:
        """Return what to name in place of a target that was called too seldom, or how to have it called."""
        target = Target(self._request)
        other = elsewhere.hint(target.module, target.path, target.name, compiled.MARK, self._count > 0)
        if not self._count and (other or self._process.called):
            return other or self._process.words
        compiles = "within torch.compile only the compiled callable is called" if "torch._dynamo" in sys.modules else ""
        said = ("use a smaller `--skip`", other) if self._count else ("name what the program calls", compiles)
        return "; ".join(filter(None, (*said, self._process.words)))

    def _check(self) -> None:
        import torch

        from cudagraph_skill.capture.guest import signatures

        self.done = True
        assert self._function is not None
        self._inside = True
        self._report.agree(f"the check, after {self._count} calls of the target", None)
        try:
            recorded = [(name, calls) for name, calls in self._calls.items() if calls]
            often = sorted(recorded, key=lambda item: -self._passed[item[0]])
            results: dict[str, dict[str, Any]] = {}
            for name, calls in often[: 1 if self._request.get("measure") else _MOST_SIGNATURES]:
                with torch.inference_mode(False), torch.enable_grad():  # each call is made in modes of its own
                    results[name] = self._checked(calls, signatures.Reports(self._report, name, results, self._passed))
                if not self._report.several:
                    self._report.draft(signatures.joined(results, self._passed))
                if not results[name].get("agreed") and self._report.several:
                    break  # the other ranks do not come to the next signature with this one
            gc.collect()  # graphs that hold collectives go before the program closes its process group
            self._report.result(signatures.joined(results, self._passed))
        finally:
            self._inside = False

    def _checked(self, calls: list[_Call], report: Any) -> dict[str, Any]:
        """Check the calls of one signature, beginning at the present state of the program's objects, and put that back."""
        from cudagraph_skill.capture.guest import between_calls, load, verdict

        assert self._function is not None
        source = load.Source(self._request)
        subject = _subject(self._function, self._owner, calls, self._opaque)
        subject.draws = self._streams.draws()
        subject.new_gradients = len(self._gradients.renewed)
        source.reuse(subject, "the program's own objects")
        with _device(calls[-1], subject.roots):
            result = verdict.measured(source, report)
        if self._request.get("measure"):
            return result
        wrong = result["verdict"] == "silent_wrong"
        result["notes"] += between_calls.notes([call.given for call in calls], self._between.left_out, wrong)
        return result


def _device(call: _Call, roots: list[tuple[str, Any]]) -> contextlib.AbstractContextManager[object]:
    """Make the GPU of the call's tensors the current one: a rank may name its own without setting it."""
    import torch

    from cudagraph_skill.capture.guest import state, tensors

    reached = (*tensors.tensors((call.args, call.kwargs)), *state.tensors(roots).values())
    own = next((tensor.device for tensor in reached if tensor.is_cuda), None)
    return torch.cuda.device(own) if own is not None else contextlib.nullcontext()


def _is_method(function: Callable[..., Any], owner: Any) -> bool:
    code = _code(function)
    return isinstance(code, types.CodeType) and "self" in code.co_varnames[:1] and hasattr(owner, "__dict__")


def _has_group() -> bool:
    """Return whether the program has a process group of torch.distributed now; without loading it."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _code(function: Any) -> Any:
    """Return the code of a function below its decorators, or the object itself if it has no code."""
    below = inspect.unwrap(function)
    return getattr(below, "__code__", below)


class _Call:
    """One real call: copies of its arguments, its modes and duration, and what other code changed since the one before.

    `changed` are numbers and flags, `given` tensors (between_calls.py).
    """

    def __init__(
        self,
        roots: list[tuple[str, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        before: dict[str, Any] | None,
        under: Modes,
    ) -> None:
        from cudagraph_skill.capture.guest import state

        self.modes, self.seconds = under, 0.0
        self.args, self.kwargs = args, kwargs
        self.given: list[Any] = []
        entered = state.scalars(roots) if before is not None else {}
        self.changed = {
            path: value
            for path, value in entered.items()
            if before and path in before and before[path] != value and path[:4] != "len("
        }


def _roots(function: Callable[..., Any], owner: Any, opaque: list[Any]) -> list[tuple[str, Any]]:
    """Return where to look for state: what the target closes over, its object, and models among its arguments."""
    arguments = [(f"argument {type(value).__name__}", value) for value in opaque]
    return [("", compiled.plain(function)), *([("self", owner)] if owner is not None else []), *arguments]


def _subject(function: Callable[..., Any], owner: Any, calls: list[_Call], opaque: list[Any]) -> Any:
    from cudagraph_skill.capture.guest import between_calls, load, state, tensors

    modes = calls[0].modes
    call = modes.around(functools.partial(function, owner) if owner is not None else function)
    roots = _roots(function, owner, opaque)

    def inputs(number: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        this = calls[number % len(calls)]
        state.assign(roots, this.changed)
        subject.given = between_calls.put(roots, this.given)
        return tensors.copied(this.args), tensors.copied(this.kwargs)

    name = getattr(function, "__qualname__", "the target")
    objects = tuple(
        (f"argument {type(value).__name__}", value) for value in tensors.opaque_objects((calls[-1].args, calls[-1].kwargs))
    )
    seconds = max(call.seconds for call in calls)
    subject = load.Subject(call, inputs, None, roots, None, name, numbered=True, input_makers=objects, seconds=seconds)
    subject.bare, subject.modes = types.MethodType(function, owner) if owner is not None else function, modes
    return subject


def _without_causes(verdict: str, sentence: str, request: dict[str, Any]) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "said": sentence,
        "target": {"path": "", "line": 0, "name": request.get("target", "")},
        "causes": [],
        "graph": None,
        "rounds": None,
        "machine": {},
        "notes": [],
    }
