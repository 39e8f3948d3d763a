"""What an attribute of a value of a library is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Array,
    Class,
    External,
    Function,
    Host,
    Method,
    Native,
    Object,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    device,
    number,
    quoted,
)
from cudagraph_skill.check.library.torch import objects, ops
from cudagraph_skill.check.library.torch.devices import DTYPES

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_ALIASES = {"torch.functional.": "torch.", "torch._C._nn.": "torch.nn.functional.", "torch.nn.modules.": "torch.nn.",
            "torch._refs.": "torch.", "torch.ops.aten.": "torch.", "torch.nn.parameter.": "torch.nn."}  # fmt: skip

_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf}
_VIEWS = {"T", "mT", "H", "mH", "data", "real", "imag"}
_DESCRIPTIONS = {"dtype", "layout", "grad_fn", "requires_grad", "is_leaf", "names", "itemsize"}
_SWITCHES: dict[str, Callable[[Tensor], bool]] = {
    "is_cuda": lambda tensor: tensor.on_gpu,
    "is_cpu": lambda tensor: not tensor.on_gpu,
    "is_sparse": lambda tensor: tensor.layout == "sparse",
}


def named(name: str) -> Value:
    """Return a name of a library, spelled as its package spells it."""
    for alias, public in _ALIASES.items():
        if name.startswith(alias):
            rest = name[len(alias) :]
            # torch.nn.modules.linear.Linear is torch.nn.Linear: the module between goes too
            return External(public + (rest.split(".", 1)[-1] if "modules" in alias else rest))
    return Object(name, [], {}, 0) if name == "torch.cuda.default_generators" else External(name)


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """Return an attribute of something that is not the user's."""
    if isinstance(owner, External):
        return _of_external(owner, name)
    if isinstance(owner, Tensor):
        return _of_tensor(machine, owner, name, node)
    if isinstance(owner, Object):
        return objects.attribute(machine, owner, name, node)
    if isinstance(owner, Host):
        return _of_host(owner, name)
    if isinstance(owner, Array):
        if name in {"shape", "size", "ndim", "dtype"}:
            return Host("size" if name == "shape" else "number", sym=mix(name, owner.sym))
        return Array(owner.ndim, owner.sym, owner.origins) if name == "T" else Method(owner, name)
    if isinstance(owner, Sequence):
        return _of_sequence(owner, name)
    if isinstance(owner, Class):
        return objects.of_class(owner, name)
    if isinstance(owner, Function) and "property" in owner.marks:
        return Method(owner, name)  # `setter`, which decorates
    if isinstance(owner, (Function, Partial)) and name == "__name__":
        return Host("str", sym=mix("name", owner.sym))
    if type(owner) is Value or isinstance(owner, (Function, Partial, Native)):
        return _of_unknown(owner, name)
    return Method(owner, name)


def _of_unknown(owner: Value, name: str) -> Value:
    if type(owner) is Value and name == "zero_grad":
        return Method(owner, name)  # an optimizer or a module, whatever else is known of it
    return Value(mix("attribute", owner.sym, name), owner.origins)


def _of_external(owner: External, name: str) -> Value:
    full = f"{owner.name}.{name}"
    if full in DTYPES:
        return Host("dtype", full, mix("dtype", full))
    if name in _CONSTANTS and owner.name in {"math", "torch", "numpy"}:
        return const(_CONSTANTS[name])
    return named(full)


def _of_tensor(machine: Machine, owner: Tensor, name: str, node: ast.AST) -> Value:
    if name in {"shape", "_shape"}:
        return Host("size", sym=mix("shape", owner.ndim, owner.first))
    if name == "device":
        return device(owner.device)
    if name in _SWITCHES:
        return const(_SWITCHES[name](owner))
    if name in _DESCRIPTIONS:
        return Host(name, sym=mix(name, owner.dtype))
    if name == "ndim" and owner.ndim is not None:
        return const(owner.ndim)
    if name == "_version":
        return _version(machine, node)
    if name in {"ndim", "nbytes"}:
        return number(mix(name, min(owner.storages)))
    if name == "grad":
        return machine.torch.grad_of(owner)
    return owner.view(owner.ndim) if name in _VIEWS else Method(owner, name)


def _version(machine: Machine, node: ast.AST) -> Value:
    if not machine.inside:
        return number()
    message = f"{quoted(node)} counts writes by Python code; a replay writes without counting, and the graph keeps the number of the capture"
    return number(origins=machine.origin("CG111", node, message))


def _of_host(owner: Host, name: str) -> Value:
    if owner.kind == "device" and name in {"type", "index"}:
        return const(owner.value) if owner.value and name == "type" else Host("str", sym=mix(name, owner.sym))
    if owner.kind == "dtype" and name in {"is_floating_point", "itemsize"}:
        return Host("bool", sym=mix(name, owner.sym))
    if (owner.known and name in {"real", "imag", "value", "name"}) or owner.kind == "clock":
        return owner
    return Method(owner, name)


def _of_sequence(owner: Sequence, name: str) -> Value:
    items = owner.items or []
    place = ops.FIELDS.get((len(items), name)) if owner.kind == "tuple" else None
    if place is not None and all(isinstance(item, Tensor) for item in items):
        return items[place]
    return number() if name == "maxlen" else Method(owner, name)
