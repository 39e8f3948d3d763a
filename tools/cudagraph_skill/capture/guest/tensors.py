"""Find, copy and compare tensors and numbers inside nested values."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Distance = Callable[["HostCopy", "HostCopy"], float]

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an element
_PART = 1 << 22  # elements that are summed at once
_ROW, _PART_OF_ROWS = 256, 1 << 26  # elements: a row is summed in single precision, which makes no copy in double precision
_MAX_ELEMENTS = 1 << 18  # that are copied of one tensor; of a larger one as many, evenly spread, and its sums
_FLOOR = 1e-4  # below this a value counts as zero when a difference is related to it
# How far a replay may be from eager where eager itself repeats to the bit, relative to the root mean square. Replays run the same
# kernels; what differs at all is a library that picks another algorithm on another stream.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 4e-3, torch.float16: 1e-3}
_SINGLE = {torch.float32, torch.bfloat16, torch.float16}  # subtracted in single precision

OUT_OF_MEMORY = torch.cuda.OutOfMemoryError  # its name in every torch; torch.OutOfMemoryError from 2.5 on


class HostCopy(NamedTuple):
    """The copy of one tensor or number: `data` on the CPU, real numbers with arithmetic or integers.

    Where `data` is a sample of a large tensor, `sums` are that of all elements and that of their sizes.
    """

    data: torch.Tensor
    shape: tuple[int, ...]
    dtype: torch.dtype
    sums: tuple[float, ...] = ()


def leaves(value: Any, path: str = "", within: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield path and value of everything in nested lists, tuples, dicts, dataclasses and batches."""
    if id(value) in within:
        return
    within = (*within, id(value))
    for name, part in children(value):
        if children(part) or isinstance(part, (list, tuple, dict)):
            yield from leaves(part, path + name, within)
        else:
            yield path + name, part
    if not children(value) and not path and not isinstance(value, (list, tuple, dict)):
        yield path, value


def children(value: Any) -> list[tuple[str, Any]]:  # noqa: PLR0911 - one return for each kind
    """Return the items of a container, each with its step in the path; [] for a tensor, a number or an opaque object."""
    if isinstance(value, torch.Tensor):
        return []
    if type(value) is streams.Playback:
        return [] if streams.lives_on(value) else [(f"[{n}]", part) for n, part in enumerate(streams.items(value))]
    if isinstance(value, dict):
        return [
            (f"[{key!r}]" if isinstance(key, (str, int)) else f"[{n}]", part) for n, (key, part) in enumerate(value.items())
        ]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, (list, tuple)):
        return [(f"[{n}]", part) for n, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{part.name}", getattr(value, part.name, None)) for part in dataclasses.fields(value)]
    if type(value) in _batches:
        return [(f".{name}", part) for name, part in vars(value).items()]
    return []


_batches: set[type] = set()
_STATEFUL = (torch.nn.Module, torch.optim.Optimizer)


def state_among(value: Any, earlier: dict[Any, Any]) -> list[Any]:
    """Return the objects among the arguments of a call that are state; `earlier` records the arguments of earlier calls.

    State are models, optimizers, and what was the same object in the call before, such as a cache. A class whose object holds
    tensors and is another one in each call is a batch: from now on it is opened like a dict.
    """
    call = earlier["calls"] = earlier.get("calls", 0) + 1
    state = []
    for opaque in opaque_objects(value):
        known, attributes = earlier.get((type(opaque), id(opaque))), getattr(opaque, "__dict__", {})
        if isinstance(opaque, _STATEFUL) or (known is not None and known[0] < call):
            state.append(opaque)
        elif earlier.get(type(opaque), call) < call and any(isinstance(item, torch.Tensor) for item in attributes.values()):
            _batches.add(type(opaque))
        earlier[type(opaque), id(opaque)] = (call, opaque)  # kept alive, so that its id stays its own
        earlier.setdefault(type(opaque), call)
    return state


def opaque_objects(value: Any) -> list[Any]:
    """Return the objects among arguments that are neither tensors, numbers nor batches: models, optimizers, caches."""
    return [
        leaf
        for _, leaf in leaves(value)
        if hasattr(leaf, "__dict__") and not isinstance(leaf, (torch.Tensor, type)) and not streams.is_iterator(leaf)
    ]


def tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value."""
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def signature(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Describe what one graph can be replayed for: dtype, shape and device of each tensor, and flags; other numbers by type."""
    given = [
        _sort(leaf) if path == f"[{number}]" else f"{path} {_sort(leaf)}" for number, (path, leaf) in enumerate(leaves(args))
    ]
    return ", ".join(
        [*given, *(f"{path[2:-2] if path.count('[') == 1 else path} {_sort(leaf)}" for path, leaf in leaves(kwargs))]
    )


def _sort(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        elsewhere = f" on {leaf.device}" * (not leaf.is_cuda or leaf.device.index != torch.cuda.current_device())
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}{elsewhere}"
    return repr(leaf)[:40] if isinstance(leaf, (bool, str, type(None))) else type(leaf).__name__


def given(value: Any) -> list[torch.Tensor]:
    """Return the tensors in the arguments of a call, and the items that it draws from recorded iterators among them."""
    drawn = [streams.items(leaf) for _, leaf in leaves(value) if type(leaf) is streams.Playback]
    return tensors(value) + tensors(drawn)


def numbers(value: Any) -> dict[str, Any]:
    """Return the Python numbers, flags and strings in a value, by path."""
    return {path: leaf for path, leaf in leaves(value) if isinstance(leaf, (int, float, complex, str))}


def values_to_host(value: Any) -> dict[str, HostCopy]:
    """Copy tensors and numbers of a value to the CPU, by path. Waits for the GPU."""
    copies = {}
    for path, leaf in leaves(value):
        if isinstance(leaf, torch.Tensor):
            copies[path] = to_host(leaf)
        elif isinstance(leaf, (bool, int, float)):
            copies[path] = HostCopy(torch.tensor(leaf, dtype=torch.float64), (), torch.float64)
        elif isinstance(leaf, complex):
            copies[path] = HostCopy(torch.tensor([leaf.real, leaf.imag], dtype=torch.float64), (), torch.float64)
    return copies


def to_host(tensor: torch.Tensor) -> HostCopy:
    """Copy one tensor to the CPU; of a large one, a sample and sums."""
    with torch.no_grad():
        plain = dense(tensor)
        shape = tuple((plain if tensor.is_nested else tensor).shape)
        if plain.numel() <= _MAX_ELEMENTS:
            return HostCopy(_real(plain.cpu() if plain.is_cuda else plain.clone()), shape, tensor.dtype)
        flat = (torch.view_as_real(plain) if plain.is_complex() else plain).reshape(-1)
        ends = _sums(flat)
        if flat.dtype.is_floating_point:
            ends /= math.sqrt(flat.numel())  # as far apart as the elements are, where these differ by rounding
        return HostCopy(_real(sample(flat, _MAX_ELEMENTS).cpu()), shape, tensor.dtype, tuple(ends.tolist()))


def _sums(flat: torch.Tensor) -> torch.Tensor:
    """Return the sum of the elements and that of their sizes, part by part: `sum(dtype=)` copies its input in that type."""
    if flat.dtype in _SINGLE and flat.numel() > _PART:
        *rows, rest = flat.split(_PART_OF_ROWS)
        whole = rest.numel() // _ROW * _ROW
        return torch.stack([*map(_sums_of_rows, (*rows, rest[:whole])), _sums(rest[whole:])]).sum(0)
    kind = torch.float64 if flat.dtype.is_floating_point else torch.int64
    wide = (part.to(kind) for part in flat.split(_PART))
    return torch.stack([torch.stack((part.sum(), part.abs().sum())) for part in wide]).sum(0)


def _sums_of_rows(flat: torch.Tensor) -> torch.Tensor:
    rows = flat.view(-1, _ROW)
    sums = (rows.sum(1, dtype=torch.float32), torch.linalg.vector_norm(rows, 1, dim=1, dtype=torch.float32))
    return torch.stack([each.double().sum() for each in sums])


def fingerprint(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return sums over the bits of the elements in their order, which show almost any change; () if they are not in one piece."""
    plain = tensor.layout is torch.strided and not (tensor.is_nested or tensor.is_quantized or hasattr(tensor, "to_local"))
    if not plain or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return ()
    flat = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).reshape(-1)
    order = torch.arange(1, min(_PART, flat.numel()) + 1, device=flat.device)
    wide = (part.view(_BITS[part.element_size()]).to(torch.int64) for part in flat.split(_PART))
    sums = torch.stack([torch.stack((part.sum(), (part * order[: part.numel()]).sum())) for part in wide])
    return tuple((sums * torch.arange(1, len(sums) + 1, device=flat.device)[:, None]).sum(0).tolist() + sums.sum(0).tolist())


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor for one that may be sparse, quantized, distributed or conjugated."""
    plain = tensor.detach()
    if hasattr(plain, "to_local"):
        plain = plain.to_local()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout is not torch.strided:
        plain = plain.to_dense() if not plain.is_nested else plain.to_padded_tensor(0.0)
    elif plain.is_nested:
        plain = plain.to_padded_tensor(0.0)
    return plain.resolve_conj().resolve_neg()


def sample(flat: torch.Tensor, most: int) -> torch.Tensor:
    """Copy at most `most` elements of a flat tensor, evenly spread."""
    return flat[:: max(1, -(-flat.numel() // most))].clone()


def _real(data: torch.Tensor) -> torch.Tensor:
    if data.is_complex():
        data = torch.view_as_real(data)
    return data.float() if data.dtype.is_floating_point and data.element_size() == 1 else data  # float8 has no arithmetic


def difference(first: HostCopy, second: HostCopy) -> float:
    """Return the largest difference relative to the root mean square of `first`; infinite if the shapes differ."""
    return _distance(first, second, lambda off, sums, _: max(float(off.abs().max()), *map(abs, sums), 0.0))


def mean_difference(first: HostCopy, second: HostCopy) -> float:
    """Return the root mean square of the differences, as `difference` does the largest; sums count by their share of the sizes."""
    return _distance(first, second, lambda off, sums, size: max(_rms(off), size * _share(sums, first)))


def _share(sums: Sequence[float], copy: HostCopy) -> float:
    """Return how far the sums of elements and of sizes are apart, relative to the sum of the sizes."""
    return max(map(abs, sums)) / max(copy.sums[-1], _FLOOR) if copy.sums else 0.0


def _rms(values: torch.Tensor) -> float:
    exact = values.double()
    return math.sqrt(float(torch.dot(exact, exact)) / len(exact))


def _distance(first: HostCopy, second: HostCopy, norm: Callable[[torch.Tensor, Sequence[float], float], float]) -> float:
    """Return a norm of the differences, given those of elements and of sums and the elements' root mean square, relative to it."""
    a, b = first.data, second.data
    if first.shape != second.shape or a.shape != b.shape:
        return math.inf
    if a.numel() == 0 or (a.dtype == b.dtype and first.sums == second.sums and torch.equal(a, b)):
        return 0.0
    if not a.dtype.is_floating_point and not b.dtype.is_floating_point:
        return float((a != b).double().mean()) + 0.01
    wide = torch.float32 if {a.dtype, b.dtype} <= _SINGLE else torch.float64
    a, b = a.to(wide).reshape(-1), b.to(wide).reshape(-1)
    off, sums = a - b, [one - other for one, other in zip(first.sums, second.sums, strict=True)]
    if not math.isfinite(float(off.sum()) + sum(sums)):  # a NaN or an infinity, or larger than single precision has
        a, b = a.double(), b.double()
        unequal = any(not torch.equal(special(a), special(b)) for special in (torch.isnan, torch.isposinf, torch.isneginf))
        if unequal or list(map(_special, first.sums)) != list(map(_special, second.sums)):
            return math.inf
        a, b = a.nan_to_num(0.0, 0.0, 0.0), b.nan_to_num(0.0, 0.0, 0.0)
        off, sums = a - b, [each for each in sums if math.isfinite(each)]
    size = _rms(a)
    return norm(off, sums, size) / (_FLOOR + size)


def _special(number: float) -> float | None:
    """Return an infinity as it is, None for a NaN, 0 for others."""
    return None if math.isnan(number) else number if math.isinf(number) else 0.0


def tolerance(copy: HostCopy) -> float:
    """Return how far a replay may differ from eager's value if eager repeats bit for bit."""
    return TOLERANCES.get(copy.dtype, 1e-2 if copy.dtype.is_floating_point else 0.0)


def differences(first: dict[str, HostCopy], second: dict[str, HostCopy], *, by: Distance = difference) -> dict[str, float]:
    """Return how far each value of `first` is from the one at the same path in `second`; infinite if there is none."""
    return {path: by(copy, second[path]) if path in second else float("inf") for path, copy in first.items()}


def other_number(value: Any, path: str) -> Any:
    """Return a nested value with the number at one path changed."""
    number = numbers(value)[path]
    changed = not number if isinstance(number, bool) else number + 1 if isinstance(number, (int, float)) else number
    return renumbered(value, {path: changed})


def renumbered(value: Any, wanted: dict[str, Any], path: str = "") -> Any:
    """Return a nested value with the numbers, flags and strings at these paths put in their place."""
    if path in wanted and isinstance(value, (int, float, complex, str)):
        return wanted[path]
    if isinstance(value, dict):
        return {
            key: renumbered(part, wanted, path + step)
            for (key, part), (step, _) in zip(value.items(), children(value), strict=True)
        }
    if isinstance(value, (list, tuple)):
        changed = [renumbered(part, wanted, path + step) for step, part in children(value)]
        return type(value)(*changed) if hasattr(value, "_fields") else type(value)(changed)
    return value


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    strided = tensor.layout is torch.strided and not tensor.is_nested
    if not tensor.is_cuda and strided and tensor.is_pinned():
        return tensor.clone().pin_memory()  # only pinned memory can be copied from within a capture
    return tensor.clone(memory_format=torch.contiguous_format) if strided and 0 in tensor.stride() else tensor.clone()


def gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the `.grad` of a leaf, else None; asked of another tensor, torch warns."""
    return tensor.grad if tensor.is_leaf else None


def _with_gradient(copy: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    grad = gradient(source)
    if grad is not None:
        if grad.dtype != copy.dtype:
            copy.grad_dtype = None  # any; without it torch >=2.10 refuses, and an older one has no such gradient
        copy.grad = _clone(grad.detach())
    return copy


def copied(value: Any) -> Any:  # noqa: PLR0911 - one return for each kind
    """Copy the tensors in a nested value with their gradients, and recorded items; everything else stays the same object."""
    if isinstance(value, torch.Tensor):
        return _with_gradient(_clone(value.detach()).requires_grad_(value.requires_grad), value)
    if type(value) in (streams.Recording, streams.Playback):
        return streams.again(value)
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()} if type(value) is dict else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(copied, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(copied, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{part.name: copied(getattr(value, part.name)) for part in dataclasses.fields(value) if part.init}
        )
    if type(value) in _batches:
        batch = copy.copy(value)
        vars(batch).update({name: copied(part) for name, part in vars(value).items()})
        return batch
    return value


def static(value: Any) -> Any:
    """Return arguments that can be overwritten before a replay; an expanded tensor, whose elements share memory, is copied."""
    if any(0 in tensor.stride() and tensor.numel() > 1 for tensor in tensors(value) if tensor.layout is torch.strided):
        return copied(value)
    return value


def refill(static: Any, new: Any) -> list[str]:
    """Copy the tensors of `new` into those of `static`, as one does before a replay.

    Returns which of them could not follow, as sentences: a tensor of another shape, or one where there was none.
    """
    stuck = []
    old = dict(leaves(static))
    for path, leaf in leaves(new):
        there = old.get(path)
        if isinstance(leaf, torch.Tensor) and isinstance(there, torch.Tensor):
            if leaf is there:
                continue
            if leaf.shape != there.shape:
                stuck.append(f"shape of argument {path}: {tuple(there.shape)} at capture, then {tuple(leaf.shape)}")
                continue
            with torch.no_grad():
                there.detach().copy_(leaf)
                _refill_gradient(there, leaf)
        elif isinstance(leaf, torch.Tensor) or isinstance(there, torch.Tensor):
            was, now = ("a tensor" if isinstance(item, torch.Tensor) else repr(item)[:40] for item in (there, leaf))
            stuck.append(f"argument {path}: {was} at capture, then {now}")
    return stuck


def _refill_gradient(there: torch.Tensor, leaf: torch.Tensor) -> None:
    old, new = gradient(there), gradient(leaf)
    if old is not None and new is not None and old is not new:
        old.copy_(new)


def other_numbers(static: Any, new: Any) -> list[str]:
    """Return which numbers, flags and strings are not those of the capture, as sentences: a replay has the old ones."""
    old, now = numbers(static), numbers(new)
    return [
        f"number in argument {path}: {old[path]!r} at capture, then {number!r}"
        for path, number in now.items()
        if path in old and number != old[path] and not (isinstance(number, float) and math.isnan(number))
    ]
