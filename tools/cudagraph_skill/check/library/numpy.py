"""Call numpy, whose arrays are on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import Array, Host, Object, Value, const, number, origins_of, quoted, tensors_in
from cudagraph_skill.check.library import stdlib

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def call(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a function of numpy returns."""
    if name.startswith("numpy.random."):
        last = name.rsplit(".", 1)[-1]
        if last in {"default_rng", "RandomState", "Generator"}:
            return Object("numpy.random.Generator", args, kwargs, machine.round)
        numbers = stdlib.drawn(machine, "CG602", last, args, node)
        return Array(origins=numbers.origins) if args and type(numbers) is Host else numbers
    parts = [*args, *kwargs.values()]
    on_gpu = [tensor for part in parts for tensor in tensors_in(part) if tensor.on_gpu]
    if on_gpu and machine.refutes(on_gpu):
        return Array()
    if on_gpu:
        machine.report("CG203", node, f"{quoted(node)} needs a GPU tensor as a numpy array")
        return Array()
    if name in {"numpy.float32", "numpy.float64", "numpy.int64", "numpy.int32"} and not args:
        return Host("dtype", sym=mix(name))
    return Array(sym=mix(name, *(part.sym for part in parts)), origins=origins_of(parts))


def array_method(machine: Machine, owner: Array, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a numpy array returns."""
    parts = [owner, *args, *kwargs.values()]
    if name in {"fill", "sort", "put", "partition", "resize"}:
        machine.mutate(owner, node, *args)
        return const(None)
    if name in {"item", "__float__", "__int__", "tolist"}:
        return number(mix(name, owner.sym), origins_of(parts))
    return Array(sym=mix(name, *(part.sym for part in parts)), origins=origins_of(parts))
