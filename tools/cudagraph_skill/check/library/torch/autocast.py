"""Follow autocast and the casts of weights that it caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Host, Object, Partial, Value, const

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def clear_cache(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Forget the casts that autocast keeps."""
    del args, kwargs, node
    machine.torch.autocasts.clear()
    return const(None)


def call_under(machine: Machine, partial: Partial, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a function that autocast decorates."""
    context = partial.args[0] if partial.args else None
    depth = len(machine.torch.autocasts)
    if isinstance(context, Object) and context.site is not None and caches(context) and not machine.inside:
        machine.torch.autocasts.append((context, context.site))
    try:
        return machine.call(partial.function, args, kwargs, node)
    finally:
        del machine.torch.autocasts[depth:]


def caches(context: Object) -> bool:
    """Tell whether an autocast block keeps the casts of weights."""
    kind = context.kwargs.get("device_type")
    if isinstance(kind, Host) and kind.value == "cpu":
        return False
    switches = [context.kwargs.get(name) for name in ("cache_enabled", "enabled")]
    return not any(isinstance(switch, Host) and switch.value is False for switch in switches)
