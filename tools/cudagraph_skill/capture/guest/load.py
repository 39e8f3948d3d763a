"""Load the user's callable with its inputs and state; each call returns a fresh, independent copy."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import compiled, executed, stack, state, tensors

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator

    from cudagraph_skill.capture.guest.modes import Modes

DTYPES = {
    "float": torch.float32, "fp32": torch.float32, "float32": torch.float32, "half": torch.float16, "fp16": torch.float16,
    "float16": torch.float16, "bf16": torch.bfloat16, "bfloat16": torch.bfloat16, "fp64": torch.float64, "float64": torch.float64,
    "int": torch.int64, "long": torch.int64, "int64": torch.int64, "int32": torch.int32, "bool": torch.bool,
}  # fmt: skip
_SHAPE = re.compile(r"(?P<sizes>\d+(?:x\d+)*|scalar)(?::(?P<dtype>\w+?)(?:<(?P<below>\d+))?)?$")
_NUMBER = re.compile(r"=(-?\d+(?:\.\d*)?(?:e-?\d+)?)$")


class Misuse(Exception):
    """The user has to change something; the message says what."""


class Raised(Exception):
    """The user's own code raised while it was loaded or built: `error` is what it raised."""

    def __init__(self, doing: str, error: BaseException) -> None:
        super().__init__(doing)
        self.doing, self.error = doing, error


@dataclass(eq=False)
class Subject:
    """What is captured: `call(*args, **kwargs)` with what `inputs()` returns.

    `state()` are the tensors that count besides the result, or None where the user named none; `roots` is where the search for
    state begins, `input_makers` what makes the inputs: it is put back too, but what it keeps for itself is no result. `warmup` are the
    calls before the capture, or None; `numbered`: `inputs` wants the number of the call; `earlier` is for `tensors.state_among`;
    `draws` are the lines, with the user's frames that lead there, that draw from an iterator which lives longer than a call;
    `seconds` is how long a call took in the user's program, 0 if it made none; `new_gradients` counts the parameters among its
    arguments, or of its optimizer, to which that program gave new gradients between the calls; `given` are the tensors that the
    last `inputs` gave the values which the program gave them before that call; `made`: `make()` gave the call; `bare` is what
    `call` calls in the `modes` of that program, both None without one.
    """

    call: Callable[..., Any]
    inputs: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]
    state: Callable[[], Any] | None
    roots: list[tuple[str, Any]]
    warmup: int | None
    name: str
    numbered: bool = False
    input_makers: tuple[tuple[str, Any], ...] = ()
    earlier: dict[Any, Any] = field(default_factory=dict)
    draws: list[list[stack.Place]] = field(default_factory=list)
    seconds: float = 0.0
    new_gradients: int = 0
    given: list[torch.Tensor] = field(default_factory=list)
    made: bool = False
    bare: Callable[..., Any] | None = None
    modes: Modes | None = None

    @property
    def reach(self) -> list[tuple[str, Any]]:
        """Return the roots of everything that a call may change."""
        return [*self.roots, *self.input_makers]


class Source:
    """Loads the subject, fresh each time: imports its module again, or restores what it can reach."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.builds_anew = True
        self.why_reused = ""
        self._loaded: types.ModuleType | None = None
        self._single: Subject | None = None
        self._snapshot: state.Snapshot | None = None
        self.last: Subject | None = None  # the one that `fresh` gave last
        self.lines = executed.Lines()  # of the calls that explain a verdict

    def load(self) -> None:
        """Import the user's module; without touching the GPU, unless the module does."""
        self._loaded = _module(self.request)

    @property
    def last_roots(self) -> list[tuple[str, Any]]:
        """Return the roots of the last subject's state; [] if there is none."""
        return self.last.reach if self.last is not None else []

    def fresh(self) -> Subject:
        """Return the subject in the state that it had before its first call."""
        self.last = None  # so that its memory is free before the next is built
        self.last = self._restored() if self._single is not None else self._built()
        if self.request.get("warmup") is not None:
            self.last.warmup = int(self.request["warmup"])
        path, line, name = definition(self.last.call)
        self.request["found"] = {"path": path, "line": line, "name": name}
        return self.last

    def _built(self) -> Subject:
        if self._loaded is not None:
            module, self._loaded = self._loaded, None
        else:
            module = _module(self.request)
        state.seed(1)
        return subject(module, self.request)

    def reuse(self, subject: Subject, why: str) -> None:
        """Give this subject from now on, restored each time to its present state."""
        self.builds_anew, self.why_reused, self._single = False, why, subject
        free = torch.cuda.mem_get_info()[0] if torch.cuda.is_initialized() else 0
        self._snapshot = state.Snapshot(subject.reach, free // 4)

    @contextlib.contextmanager
    def reusing(self, subject: Subject) -> Iterator[None]:
        """Give this subject, restored each time, meanwhile: what is compiled for it is not compiled once more."""
        if not self.builds_anew:
            yield
            return
        self.reuse(subject, "")
        try:
            yield
        finally:
            self.builds_anew, self._single, self._snapshot = True, None, None

    def _restored(self) -> Subject:
        if self._snapshot is not None:
            self._snapshot.restore()
        assert self._single is not None
        return self._single

    def put_back(self) -> None:
        """Leave a subject that was reused exactly as it was found."""
        if self._snapshot is not None:
            self._snapshot.restore()


# The module -----------------------------------------------------------------------------------------------------------


def _module(request: dict[str, Any]) -> types.ModuleType:
    """Import the user's module as Python would, again if it was imported before."""
    path, name, alone = request.get("file", ""), request.get("module", ""), False
    state.seed(0)
    if path:
        folder, name = _package(path)
        alone = "." not in name or folder == os.path.dirname(path)
        _first_on_path(folder)
    else:
        _first_on_path(os.getcwd())  # as `python -m` has it
    _forget_project()
    sys.argv = [path or name]
    try:
        if alone:
            return _run_file(path, name)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name or name.startswith(f"{error.name}."):
            raise Misuse(
                f"there is no module {name} on the path of {sys.executable}: run this where `import {name}` works"
            ) from None
        raise Raised(f"importing {path or name}", error) from error
    except BaseException as error:
        raise Raised(f"importing {path or name}", error) from error


def _package(path: str) -> tuple[str, str]:
    """Return the folder to put on the path, and the dotted name of the file from there."""
    folder, stem = os.path.dirname(path), os.path.basename(path).rpartition(".")[0]
    parts = [] if stem == "__init__" else [stem]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    return folder, ".".join(parts)


def _first_on_path(folder: str) -> None:
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)


def _run_file(path: str, name: str) -> types.ModuleType:
    """Run a file under its own name, or under a made-up one if that is no identifier or names a library."""
    known = name in sys.modules or name in sys.stdlib_module_names
    name = name if name.isidentifier() and not known else f"_captured_{abs(hash(path))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Misuse(f"{path} is no Python file: name the file that defines the callable")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _forget_project() -> None:
    """Drop the modules of the user's project, so that they are imported again and share nothing with the first copy."""
    for name, module in list(sys.modules.items()):
        if name != "__main__" and not name.startswith("cudagraph_skill") and _is_of_project(name, module):
            del sys.modules[name]


def _is_of_project(name: str, module: types.ModuleType) -> bool:
    """Return whether the user wrote a module; a library may have written it to a temporary folder, and still refer to it."""
    package = sys.modules.get(name.partition(".")[0], module)
    return all(stack.rank(_file_of(each)) == 2 for each in (module, package))


def _file_of(module: types.ModuleType) -> str:
    """Return the file of a module; of a package without one, where it would be."""
    folders = getattr(module, "__path__", ())
    folder = next(iter(folders), "") if isinstance(folders, Iterable) else ""  # torch.classes has an object of its own
    return getattr(module, "__file__", None) or (folder and os.path.join(folder, "__init__.py"))


# The subject ----------------------------------------------------------------------------------------------------------


def subject(module: types.ModuleType, request: dict[str, Any]) -> Subject:
    """Return the callable that the request names, with its inputs.

    Raises:
        Misuse: it is not there, or its inputs cannot be made.
        Raised: the user's code raised.
    """
    name, maker = request.get("name", ""), request.get("make", "")
    value = _attribute(module, name) if name else None
    if maker or (value is None and callable(getattr(module, "make", None))):
        made = _made(module, maker or "make", request)
        if name in ("", "fn", "make") or name.rpartition(".")[2] in definition(made.call)[2].split("."):
            return made
        raise Misuse(
            f"{request.get('shown')} has no {name}, and {maker or 'make'}() gives {made.name}: name that, or only the file"
        )
    if not name:
        raise Misuse(
            f"{request.get('shown')} has no function `make`: name the callable as {request.get('shown')}:FUNCTION, or define make() "
            f"that returns a dict with fn and inputs"
        )
    if value is None:
        raise Misuse(f"{request.get('shown')} has no {name}; it has: {', '.join(_callables(module)) or 'no callable'}")
    return _named(value, name, module, request)


def _attribute(module: Any, name: str) -> Any:
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _callables(module: types.ModuleType) -> list[str]:
    own = [
        name for name, value in vars(module).items() if callable(value) and getattr(value, "__module__", "") == module.__name__
    ]
    return own[:12]


def _made(module: types.ModuleType, name: str, request: dict[str, Any]) -> Subject:
    """Call `make("cuda")` or `make()` and read its dict: fn, inputs, and optionally state, warmup and kind."""
    maker = getattr(module, name, None)
    if not callable(maker):
        raise Misuse(f"{request.get('shown')} has no function {name}: define it, to return a dict with fn and inputs")
    device = request.get("device", "cuda")
    made = _called(lambda: maker(device) if _takes(maker, 1) else maker(), f"{name}()")
    if not isinstance(made, dict) or not callable(made.get("fn")):
        raise Misuse(
            f"{name}() returned {type(made).__name__}, it must return a dict with `fn`, and `inputs` that makes its arguments"
        )
    inputs = made.get("inputs", tuple)
    if not callable(inputs):
        fixed = inputs
        inputs = lambda: fixed  # noqa: E731 - inputs that never change
    given = made.get("state")
    named_state = given if given is None or callable(given) else lambda: given
    roots = [("", made["fn"]), *((("state", given),) if given is not None else ())]
    name, warm_up = _name(made["fn"]), made.get("warmup")
    return Subject(
        made["fn"], lambda: _arguments(inputs()), named_state, roots, warm_up, name, input_makers=(("", inputs),), made=True
    )


def _named(value: Any, name: str, module: types.ModuleType, request: dict[str, Any]) -> Subject:
    if isinstance(value, type):
        built = _called(value, f"{name}()")
        value = built.to(request.get("device", "cuda")) if isinstance(built, torch.nn.Module) else built
    elif "." in name and inspect.isfunction(value):
        owner = _attribute(module, name.rpartition(".")[0])
        if isinstance(owner, type) and not isinstance(inspect.getattr_static(owner, name.rpartition(".")[2]), staticmethod):
            built = _called(owner, f"{name.rpartition('.')[0]}()")
            built = built.to(request.get("device", "cuda")) if isinstance(built, torch.nn.Module) else built
            value = getattr(built, name.rpartition(".")[2])
    if not callable(value):
        raise Misuse(
            f"{name} is a {type(value).__name__}, which cannot be called: name a function, a method, a module or a class"
        )
    inputs = _inputs(value, name, module, request)
    return Subject(
        value,
        inputs,
        None,
        [("", value)],
        None,
        _name(value) if not isinstance(value, torch.nn.Module) else name,
        input_makers=(("", _attribute(module, request["inputs"])),) if request.get("inputs") else (),
    )


def _inputs(value: Any, name: str, module: types.ModuleType, request: dict[str, Any]) -> Callable[[], Any]:
    maker, shapes, device = request.get("inputs", ""), request.get("shapes") or [], request.get("device", "cuda")
    if maker:
        make = _attribute(module, maker)
        if not callable(make):
            raise Misuse(
                f"{request.get('shown')} has no function {maker}: `--inputs` names the function that returns the arguments of {name}"
            )
        return lambda: _arguments(make(device) if _takes(make, 1) else make())
    if shapes:
        makers = [_shape(shape, device) for shape in shapes]
        return lambda: (tuple(argument() for argument in makers), {})
    needed = _required(value)
    if needed:
        shown = " ".join("--shape 8x16" for _ in needed)
        raise Misuse(
            f"{name} takes {', '.join(needed)}: give their shapes (`{shown}`), or `--inputs FUNCTION` that returns them"
        )
    return lambda: ((), {})


def _shape(text: str, device: str) -> Callable[[], Any]:
    """Parse `8x128`, `8x128:bf16`, `8x128:int64<50257`, `scalar:bf16` or a Python number such as `=0.5`."""
    number = _NUMBER.match(text)
    if number:
        value = float(number[1]) if re.search("[.e]", number[1]) else int(number[1])
        return lambda: value
    match = _SHAPE.match(text)
    dtype = DTYPES.get(match["dtype"] or "float32") if match else None
    if match is None or dtype is None:
        raise Misuse(
            f"`--shape {text}`: write 8x128, 8x128:bf16, 8x128:int64<50257, or =0.5 for a number; dtypes are {', '.join(DTYPES)}"
        )
    sizes = () if match["sizes"] == "scalar" else tuple(map(int, match["sizes"].split("x")))
    below = int(match["below"] or 2)
    if dtype.is_floating_point:
        return lambda: torch.randn(sizes, device=device, dtype=dtype)
    return lambda: torch.randint(0, below, sizes, device=device).to(dtype)


def _required(function: Any) -> list[str]:
    """Return the names of the parameters that a call must pass."""
    try:
        parameters = inspect.signature(
            function.forward if isinstance(function, torch.nn.Module) else function
        ).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in kinds]


def unfit(subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return why the callable cannot take these arguments; "" if it can."""
    target = subject.call.forward if isinstance(subject.call, torch.nn.Module) else subject.call
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = f"{len(args)} argument{'s' * (len(args) != 1)}" + f" and {', '.join(kwargs)}" * bool(kwargs)
        return f"{subject.name}{signature} cannot take what its inputs gave, {given} ({error}): change the inputs"
    return ""


def _takes(function: Any, count: int) -> bool:
    """Return whether a function takes at least `count` positional arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [
        parameter for parameter in parameters if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return len(positional) >= count or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)


def _called(function: Callable[[], Any], doing: str) -> Any:
    try:
        return function()
    except BaseException as error:
        raise Raised(f"calling {doing}", error) from error


def _arguments(value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split what an inputs function returned into positional and keyword arguments."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list)) and isinstance(value[1], dict):
        return tuple(value[0]), dict(value[1])
    if type(value) is dict:
        return (), dict(value)
    if type(value) in (tuple, list):
        return tuple(value), {}
    return (value,), {}


def _name(function: Any) -> str:
    return getattr(_code_owner(function), "__qualname__", type(function).__name__)


def definition(function: Any) -> tuple[str, int, str]:
    """Return file, line and qualified name of a callable's code; of a module's forward, of an object's `__call__`."""
    owner = _code_owner(function)
    code = getattr(owner, "__code__", None)
    if code is None:
        return "", 0, _name(function)
    return code.co_filename, code.co_firstlineno, getattr(owner, "__qualname__", code.co_name)


def _code_owner(function: Any) -> Any:
    """Return the function below partials, decorators, compiled callables, modules and objects that are called."""
    inner = _below(function)
    while inner is not function:
        function, inner = inner, _below(inner)
    return function


def _below(function: Any) -> Any:
    if isinstance(function, functools.partial):
        return function.func
    if isinstance(function, torch.nn.Module):
        return function.forward
    if not inspect.isroutine(function) and not isinstance(function, type):
        return type(function).__call__
    return inspect.unwrap(compiled.plain(getattr(function, "__func__", function)))


def reached(subject: Subject, args: Any) -> list[torch.Tensor]:
    """Return the tensors that a call is given or can reach."""
    return [*tensors.tensors(args), *state.tensors(subject.reach).values()]
