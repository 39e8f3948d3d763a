"""Tell whether two values are the same, or look the same to the program."""

from __future__ import annotations

from cudagraph_skill.check.interpreter.values import Function, Host, Instance, Mapping, Sequence, Tensor, Value


def fingerprint(value: Value, depth: int = 2) -> object:
    """Return what stays the same while a value stays the same: the memory of a tensor, the name of a host value."""
    if isinstance(value, Tensor):
        # New numbers in the same GPU memory are what a replay reads; those of CPU memory are frozen in launches.
        return value.storages if value.on_gpu else (value.storages, value.sym)
    if isinstance(value, Sequence) and depth:
        return (value.kind, tuple(fingerprint(item, depth - 1) for item in value.each()), value.items is None)
    # Two values of which nothing is known are taken for the same: else every unknown call would change at each round.
    if type(value) is Value and not value.origins:
        return "unknown"
    # Deeper down the name of the container has to do: what changes there is found where it is read.
    if isinstance(value, Mapping) and depth:
        return tuple((key, fingerprint(item, depth - 1)) for key, item in value.slots.items())
    return value.sym


def outline(value: Value | None, depth: int = 2) -> object:
    """Return what two values have in common that a program tells apart only by their memory."""
    if isinstance(value, Host):
        return (value.kind, value.value)
    if isinstance(value, Tensor):
        return (value.device, value.ndim, value.dtype)
    if isinstance(value, Sequence) and depth:
        return (value.kind, value.items is None, [outline(item, depth - 1) for item in value.each()])
    if isinstance(value, Mapping) and depth:
        return [(key, outline(item, depth - 1)) for key, item in value.slots.items()]
    return value.node if isinstance(value, Function) else value.cls if isinstance(value, Instance) else type(value)
