"""Find, save and restore everything that a callable can reach and change.

Parameters, buffers, gradients, optimizer state, attributes, closure variables, globals, containers, generators.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import random
import re
import sys
import types
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from cudagraph_skill.capture.guest import compiled, stack
from cudagraph_skill.capture.guest.tensors import fingerprint, gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_MAX_OBJECTS = 200_000
_LARGE = 1 << 24  # bytes of a tensor on the host that is compared before it is copied back; a choice, not measured
_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_SKIPPED = (types.ModuleType, torch.dtype, torch.device, torch.cuda.Stream, torch.cuda.Event, torch.cuda.CUDAGraph, type(...))
_HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")


class Reached(NamedTuple):
    """A reachable object: `path` describes the way to it (`self.norm.scale`), `value` is the object."""

    path: str
    value: Any


def walk(roots: list[tuple[str, Any]]) -> Iterator[Reached]:
    """Yield everything that the roots reach, each object once, parents first."""
    waiting = deque(Reached(path, value) for path, value in roots)
    seen: set[int] = set()
    alive = []  # so that no id is used twice while this runs
    while waiting and len(seen) < _MAX_OBJECTS:
        path, value = waiting.popleft()
        if isinstance(value, _PLAIN):
            yield Reached(path, value)
            continue
        if id(value) in seen or isinstance(value, _SKIPPED) or type(value).__module__.startswith("cudagraph_skill."):
            continue
        seen.add(id(value))
        alive.append(value)
        yield Reached(path, value)
        waiting.extend(Reached(_joined(path, step), part) for step, part in _parts(value))


def _joined(path: str, step: str) -> str:
    """Join a path and one more step; `:` precedes the name of a variable that a function sees."""
    return f"{path}:{step}" if path and step[:1].isidentifier() else path + step


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return what a value refers to, each with the step that leads there."""
    return next(parts(value) for kinds, parts in _PARTS if isinstance(value, kinds))


def _of_tensor(tensor: torch.Tensor) -> list[tuple[str, Any]]:
    grad = gradient(tensor)
    return [(".grad", grad)] if grad is not None else []


def _of_property(value: property) -> list[tuple[str, Any]]:
    return [("", function) for function in (value.fget, value.fset) if function is not None]


def _kind(value: Any) -> Any:
    """Return the container that a class of a library is made from: what that class overrides may raise, or do something."""
    return next(kind for kind in (OrderedDict, dict, list, tuple, deque, set, frozenset) if isinstance(value, kind))


def _of_dict(value: dict[Any, Any]) -> list[tuple[str, Any]]:
    return [(_key(key, number), part) for number, (key, part) in enumerate(list(_kind(value).items(value)))]


def _of_sequence(value: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(f"[{number}]", part) for number, part in enumerate(list(_kind(value).__iter__(value)))]


def _of_set(value: Iterable[Any]) -> list[tuple[str, Any]]:
    return [("{}", part) for part in list(_kind(value).__iter__(value)) if not isinstance(part, _PLAIN)]


def _of_partial(value: functools.partial[Any]) -> list[tuple[str, Any]]:
    return [("", value.func), (".args", value.args), (".keywords", value.keywords)]


def _key(key: Any, number: int) -> str:
    return f"[{key!r}]" if isinstance(key, (str, int)) else f"[{number}]"


def _of_function(function: types.FunctionType) -> list[tuple[str, Any]]:
    inner = compiled.plain(function)
    if inner is not function:
        return [("", inner)]
    if stack.ours(function.__code__.co_filename):  # what stands around the target while it is watched
        return [("", part) for part in (getattr(function, "__wrapped__", None),) if part is not None]
    parts: list[tuple[str, Any]] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            parts.append((f"{name}" if not name.startswith("__class__") else "", cell.cell_contents))
    parts += [("()", part) for part in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())]
    if vars(function):
        parts.append(("", vars(function)))
    if stack.rank(function.__code__.co_filename) == 2:
        space = function.__globals__
        parts += [(f"{name}", space[name]) for name in _names(function.__code__) if name in space and _data(space[name])]
    return parts


def _names(code: types.CodeType) -> list[str]:
    """Return the globals and attributes named by a function and by those inside it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return list(dict.fromkeys([*code.co_names, *(name for function in inner for name in _names(function))]))


def _data(value: Any) -> bool:
    """Return whether a global is worth following: not a module, nor a function or class of a library."""
    if isinstance(value, types.ModuleType):
        return False
    code = getattr(compiled.plain(value), "__code__", None)
    if code is not None:
        return stack.rank(code.co_filename) == 2
    if isinstance(value, type):
        return _own_class(value)
    return not isinstance(value, types.BuiltinFunctionType)


def _own_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return stack.rank(getattr(module, "__file__", None) or "") == 2


def _of_class(kind: type) -> list[tuple[str, Any]]:
    if not _own_class(kind):
        return []
    return [(f".{name}", member) for name, member in list(vars(kind).items()) if not name.startswith("__")]


def _of_generator(generator: types.GeneratorType[Any, Any, Any]) -> list[tuple[str, Any]]:
    return [("", dict(generator.gi_frame.f_locals))] if generator.gi_frame is not None else []


def _of_object(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)
    if _of_standard_library(kind):
        return _wrapped(value)
    parts = _of_module(value) if isinstance(value, torch.nn.Module) else []
    parts += [(f".{name}", part) for name, part in _attributes(value).items()]
    own = [base for base in kind.__mro__[:-1] if _own_class(base)] if _own_class(kind) else []
    parts += [("", base) for base in own]
    parts += [("", vars(base)[name]) for base in own for name in _methods(base)]
    return [*parts, *_wrapped(value)]


def _of_standard_library(kind: type) -> bool:
    """Return whether objects of a class hold nothing of the user's, except what a cache stands around."""
    module = kind.__module__.partition(".")[0]
    return module in sys.stdlib_module_names and not issubclass(kind, types.SimpleNamespace) and not _own_class(kind)


def _wrapped(value: Any) -> list[tuple[str, Any]]:
    """Return the function that functools.cache or functools.wraps stands around."""
    function = getattr(value, "__dict__", {}).get("__wrapped__")  # never by the value's own __getattr__
    return [("", function)] if isinstance(function, types.FunctionType) else []


def _methods(kind: type) -> list[str]:
    return [name for name, member in vars(kind).items() if isinstance(member, types.FunctionType)]


def _attributes(value: Any) -> dict[str, Any]:
    attributes = {} if isinstance(value, torch.nn.Module) else dict(getattr(value, "__dict__", {}))
    return {**attributes, **_slots(value)}


def _slots(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that are not in its `__dict__`."""
    attributes = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            slot: Any = kind.__dict__.get(name)
            if name not in ("__dict__", "__weakref__") and hasattr(slot, "__get__"):
                with contextlib.suppress(AttributeError):  # an empty one; never by the value's own __getattr__
                    attributes[name] = slot.__get__(value)
    return attributes


def _of_module(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """Return parameters, buffers, numbers and submodules by attribute: `.weight` rather than `._parameters['weight']`."""
    inside = ("_parameters", "_buffers", "_modules")
    own = [
        (f".{name}", part) for name, part in vars(module).items() if name not in inside and (not name.endswith(_HOOKS) or part)
    ]
    own += [(f".{name}", part) for kind in inside for name, part in (vars(module).get(kind) or {}).items()]
    return own + [("", vars(module)[kind]) for kind in inside if kind in vars(module)]


# What a value refers to, by the first kind that it is of
_PARTS: tuple[tuple[Any, Callable[[Any], list[tuple[str, Any]]]], ...] = (
    (torch.Tensor, _of_tensor),
    ((staticmethod, classmethod), lambda method: [("", method.__func__)]),
    (property, _of_property),
    (dict, _of_dict),
    ((list, tuple, deque), _of_sequence),
    ((set, frozenset), _of_set),
    (functools.partial, _of_partial),
    (types.MethodType, lambda method: [("", method.__self__), ("", method.__func__)]),
    (types.FunctionType, _of_function),
    (type, _of_class),
    (types.GeneratorType, _of_generator),
    (object, _of_object),
)


# What is found there --------------------------------------------------------------------------------------------------


def tensors(roots: list[tuple[str, Any]]) -> dict[str, torch.Tensor]:
    """Return all tensors by path."""
    return {path: value for path, value in walk(roots) if _filled(value)}


def beside_no_graph(roots: list[tuple[str, Any]]) -> dict[str, torch.Tensor]:
    """Return all tensors by path, without those that an object holds beside a graph: they are the static ones of its replays."""
    holders: list[str] = []
    found: dict[str, torch.Tensor] = {}
    for path, value in walk(roots):
        if any(isinstance(part, torch.cuda.CUDAGraph) for part in getattr(value, "__dict__", {}).values()):
            holders.append(path)
        elif _filled(value) and not any(path.startswith(holder) and _ITEM.match(path, len(holder)) for holder in holders):
            found[path] = value
    return found


_ITEM = re.compile(r"\.\w+(\[[^\[\]]*\])*$")  # of a container that is an attribute, or the attribute itself


def _filled(value: Any) -> bool:
    """Return whether a value is a tensor with a shape, which those of lazy modules get in the first call, and with memory."""
    return isinstance(value, torch.Tensor) and not is_lazy(value) and not _freed(value)


def _freed(tensor: torch.Tensor) -> bool:
    """Return whether the memory of a tensor was given back, as that of FSDP's gathered parameters is between their uses."""
    if tensor.layout is not torch.strided or tensor.numel() == 0 or hasattr(tensor, "to_local"):
        return False
    try:
        return bool(tensor.untyped_storage().size() == 0)
    except (RuntimeError, NotImplementedError):  # it has no storage of its own
        return False


def trained(roots: list[tuple[str, Any]]) -> dict[str, torch.Tensor]:
    """Return parameters and buffers of modules and the state of optimizers, by path."""
    weights: dict[str, torch.Tensor] = {}
    for path, value in walk(roots):
        if isinstance(value, torch.nn.Module):
            weights.update({f"{path}.{name}": own for name, own in value.named_parameters(recurse=False) if _filled(own)})
            weights.update({f"{path}.{name}": own for name, own in value.named_buffers(recurse=False) if _filled(own)})
        elif isinstance(value, torch.optim.Optimizer):
            for number, entry in enumerate(value.state.values()):
                weights.update(
                    {f"{path}.state[{number}].{key}": value for key, value in entry.items() if torch.is_tensor(value)}
                )
    return weights


def scalars(roots: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return numbers, flags and strings by path, and the length of each list, dict, set and queue."""
    numbers = {}
    for path, value in walk(roots):
        if isinstance(value, (int, float, complex, str)) and path:
            numbers[path] = value
        elif isinstance(value, (list, dict, set, deque)) and path:
            numbers[f"len({path})"] = _kind(value).__len__(value)
    return numbers


def assign(roots: list[tuple[str, Any]], values: dict[str, Any]) -> None:
    """Put numbers, flags, strings and tensors where `scalars` or `tensors` found some under these paths."""
    left = dict(values)
    for path, owner in walk(roots) if left else ():
        if isinstance(owner, _PLAIN):
            continue
        for step, part in _parts(owner):
            where = _joined(path, step) if step else ""
            if where in left and isinstance(part, (*_PLAIN, torch.Tensor)) and _set(owner, step, left[where]):
                del left[where]
        if not left:
            return


def _set(owner: Any, step: str, value: Any) -> bool:
    """Put a value where one step leads; False where that is no place of its own, such as an entry of a tuple."""
    if isinstance(owner, dict):
        name = next(key for number, key in enumerate(list(owner)) if _key(key, number) == step)
        owner[name] = value
    elif isinstance(owner, (list, deque)):
        owner[int(step[1:-1])] = value
    elif isinstance(owner, types.FunctionType) and step in owner.__code__.co_freevars:
        (owner.__closure__ or ())[owner.__code__.co_freevars.index(step)].cell_contents = value
    elif isinstance(owner, types.FunctionType) and step in owner.__globals__:
        owner.__globals__[step] = value
    elif step.startswith("."):
        setattr(owner, step[1:], value)
    else:
        return False
    return True


def generators(roots: list[tuple[str, Any]]) -> list[torch.Generator]:
    """Return the user's own generators."""
    return [value for _, value in walk(roots) if isinstance(value, torch.Generator)]


_TRACKERS = ("megatron.core.tensor_parallel.random", "transformer_engine.pytorch.distributed")


def tracked() -> list[torch.Generator]:
    """Return the generators in the random-state trackers of Megatron and Transformer Engine, without loading either.

    Their graph classes register these with every graph. A tracker made without `te_rng_tracker` or `use_cudagraphable_rng` has none.
    """
    found: dict[int, torch.Generator] = {}
    for name in _TRACKERS:
        states = getattr(sys.modules.get(name), "get_all_rng_states", dict)
        with contextlib.suppress(AssertionError):  # Megatron's was not seeded yet
            found |= {id(state): state for state in (states() or {}).values() if isinstance(state, torch.Generator)}
    return list(found.values())


# Saved and put back ---------------------------------------------------------------------------------------------------


class Snapshot:
    """A copy of all that the roots reach; `restore` puts it back, into the same objects.

    Storage that was swapped by `.data =` is swapped back; version counters of tensors stay as they are, so that a backward pass
    that the user's program still holds goes on.
    """

    def __init__(self, roots: list[tuple[str, Any]], most_bytes: int) -> None:
        self._back: list[Callable[[], None]] = []
        self.bytes = 0
        for _, value in list(walk(roots)):
            self._save(value, most_bytes)
        self._random = _random_states([*generators(roots), *tracked()])

    def restore(self) -> None:
        """Put all of it back."""
        for undo in self._back:
            undo()
        for undo in self._random:
            undo()

    def _save(self, value: Any, most_bytes: int) -> None:
        if isinstance(value, torch.Tensor):
            self._save_tensor(value, most_bytes)
        elif isinstance(value, dict):
            self._back.append(functools.partial(_refill_dict, value, dict(_kind(value).items(value))))
        elif isinstance(value, (list, deque, set)):
            self._back.append(functools.partial(_refill, value, list(_kind(value).__iter__(value))))
        elif isinstance(value, types.FunctionType):
            self._save_function(value)
        elif isinstance(value, type):
            if _own_class(value):
                self._back.append(functools.partial(_restore_class, value, dict(vars(value))))
        elif not isinstance(value, types.MethodType):
            self._save_object(value)

    def _save_object(self, value: Any) -> None:
        if isinstance(value, torch.nn.Module):  # its empty dicts of hooks are not walked
            hooks = [own for name, own in vars(value).items() if name.endswith(_HOOKS) and isinstance(own, dict) and not own]
            self._back += [own.clear for own in hooks]
        if isinstance(getattr(value, "__dict__", None), dict):
            self._back.append(functools.partial(_refill_dict, value.__dict__, dict(value.__dict__)))
        if _own_class(type(value)):
            self._back += [functools.partial(object.__setattr__, value, name, slot) for name, slot in _slots(value).items()]
        if isinstance(value, random.Random):
            self._back.append(functools.partial(value.setstate, value.getstate()))
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray) and value.flags.writeable:
            self._back.append(functools.partial(numpy.copyto, value, value.copy()))
        elif numpy is not None and isinstance(value, numpy.random.Generator):
            self._back.append(functools.partial(setattr, value.bit_generator, "state", value.bit_generator.state))

    def _save_tensor(self, tensor: torch.Tensor, most_bytes: int) -> None:
        if is_lazy(tensor) or _freed(tensor):
            return
        size = tensor.numel() * tensor.element_size()
        self.bytes += size
        alias, grad = tensor.data, tensor.grad if tensor.is_leaf else None
        on_host = tensor.is_cuda and self.bytes > most_bytes
        bits = fingerprint(alias) if on_host and size >= _LARGE else ()
        copy = _host_copy(alias) if on_host else alias.clone()
        self._back.append(_Saved(tensor, alias, copy, bits, grad, tensor.requires_grad, tensor.is_leaf).restore)

    def _save_function(self, function: types.FunctionType) -> None:
        self._back.append(functools.partial(_refill_dict, vars(function), dict(vars(function))))
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):
                self._back.append(functools.partial(setattr, cell, "cell_contents", cell.cell_contents))
        if stack.rank(function.__code__.co_filename) == 2:
            space = function.__globals__
            self._back += [
                functools.partial(space.__setitem__, name, space[name])
                if name in space
                else functools.partial(space.pop, name, None)
                for name in _names(function.__code__)
            ]


def _host_copy(there: torch.Tensor) -> torch.Tensor:
    """Return a copy on the host, in memory that all cores wrote to first.

    The driver's copy into untouched pages takes them one by one in one thread: 4 GiB took 2.5 s, and 0.45 s so (16 cores, H100).
    """
    if there.layout is not torch.strided or there.is_nested or there.numel() * there.element_size() < _LARGE:
        return there.cpu()
    threads = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    try:
        copy = torch.empty_like(there, device="cpu")
        copy.untyped_storage().fill_(0)
    finally:
        torch.set_num_threads(threads)
    return copy.copy_(there)


class _Saved(NamedTuple):
    """A tensor as it was: `alias` of its memory, a copy of its elements, and the fingerprint of a large one copied to the host."""

    tensor: torch.Tensor
    alias: torch.Tensor
    copy: torch.Tensor
    bits: tuple[int, ...]
    grad: torch.Tensor | None
    wants_grad: bool
    is_leaf: bool

    def restore(self) -> None:
        """Put back its memory, elements, gradient and flags."""
        with torch.no_grad():
            self._put_back_elements()
            if self.is_leaf and not self.tensor.is_leaf:
                with contextlib.suppress(RuntimeError):  # a view, which cannot be
                    self.tensor.detach_()
            if self.tensor.is_leaf:
                self.tensor.requires_grad_(self.wants_grad)
                self.tensor.grad = self.grad

    def _put_back_elements(self) -> None:
        tensor, alias, copy = self.tensor, self.alias, self.copy
        if tensor.layout is not torch.strided and not tensor.is_nested:
            tensor.data = copy.to(alias.device, copy=True)  # sparse: an operation in place replaces the parts
            return
        freed = _freed(alias)
        if freed:
            alias.untyped_storage().resize_(alias.element_size() * (alias.storage_offset() + copy.numel()))
        if _memory(tensor) != _memory(alias):
            tensor.data = alias
        if freed or not self.bits or fingerprint(alias) != self.bits:
            _fill(alias, copy)  # `.data` has a version counter of its own, that of the tensor does not move


def _fill(there: torch.Tensor, copy: torch.Tensor) -> None:
    for dim, step in enumerate(() if there.is_nested else there.stride()):
        if step == 0:  # expanded: one element of memory stands for all
            there, copy = (tensor.narrow(dim, 0, min(1, tensor.shape[dim])) for tensor in (there, copy))
    there.copy_(copy)


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return address and layout of a tensor's elements; shape and dtype only, if its memory is not plain."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return tensor.shape, tensor.dtype
    return tensor.shape, tensor.dtype, tensor.stride(), tensor.data_ptr()


def _restore_class(kind: type, items: dict[str, Any]) -> None:
    for name, member in items.items():
        if not name.startswith("__") and vars(kind).get(name) is not member:
            setattr(kind, name, member)
    for name in [member for member in vars(kind) if member not in items and not member.startswith("__")]:
        delattr(kind, name)


def _refill_dict(there: dict[Any, Any], items: dict[Any, Any]) -> None:
    kind = _kind(there)
    if _same(kind.keys(there), items) and _same(kind.values(there), items.values()):
        return
    kind.clear(there)
    for key, item in items.items():
        kind.__setitem__(there, key, item)


def _refill(there: Any, items: list[Any]) -> None:
    """Give a list, deque or set the items that it had."""
    kind = _kind(there)
    if _same(kind.__iter__(there), items):
        return
    kind.clear(there)
    (kind.update if kind is set else kind.extend)(there, items)


def _same(first: Iterable[Any], second: Iterable[Any]) -> bool:
    """Return whether both have the same objects in the same order."""
    one, other = list(first), list(second)
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _random_states(own: list[torch.Generator]) -> list[Callable[[], None]]:
    back: list[Callable[[], None]] = [
        functools.partial(random.setstate, random.getstate()),
        functools.partial(torch.set_rng_state, torch.get_rng_state()),
    ]
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        back.append(functools.partial(numpy.random.set_state, numpy.random.get_state()))
    if torch.cuda.is_initialized():
        back.append(functools.partial(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    return back + [functools.partial(generator.set_state, generator.get_state()) for generator in own]


def seed(number: int) -> None:
    """Seed Python's, numpy's and torch's default generators."""
    _seed_host(number)
    torch.manual_seed(number)


def _seed_host(number: int) -> None:
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed(number % (1 << 32))
    torch.default_generator.manual_seed(number)


@contextlib.contextmanager
def drawing(number: int) -> Iterator[None]:
    """Seed the generators of the host, and let the GPU's draws within come from another one with that seed.

    The GPU's own is not seeded: before a capture that would make cuDNN set up the dropout state of recurrent layers anew
    (`reset_rnn_state` in ATen/native/cudnn/RNN.cpp), which a capture does not allow. It moves on, as by draws of the program.
    """
    _seed_host(number)
    if not torch.cuda.is_initialized():
        yield
        return
    torch.rand(1, device="cuda")
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    own = generator.graphsafe_get_state()
    generator.graphsafe_set_state(torch.Generator("cuda").manual_seed(number))
    try:
        yield
    finally:
        generator.graphsafe_set_state(own)


def random_marks() -> dict[str, Any]:
    """Return the state of each default generator, to see which of them a call moves."""
    marks: dict[str, Any] = {
        "python-random": random.getstate()[1],
        "cpu-torch-random": _bytes(torch.get_rng_state()),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        state = numpy.random.get_state()
        marks["numpy-random"] = (state[1].tobytes(), state[2])
    if torch.cuda.is_initialized():
        marks["cuda-random"] = _bytes(torch.cuda.get_rng_state())
    return marks


def _bytes(state: torch.Tensor) -> bytes:
    return bytes(state.tolist())  # not by way of numpy, which torch can do without


def moved(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Return the names of the generators whose state changed."""
    return {name for name in after if name in before and before[name] != after[name]}
