"""Follow the dropout state of cuDNN, which the first recurrent layer after a seed makes anew: the host reads a number for it.

It is followed only from a layer that was seen to make it. Code of which nothing is known may call a layer, too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import (
    Bound,
    Choice,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Object,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    quoted,
)
from cudagraph_skill.check.library.torch.modules import MODULE_METHODS
from cudagraph_skill.check.library.torch.optimizers import OPTIMIZER_METHODS

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

LAYERS = {"LSTM", "GRU", "RNN"}
_MADE = "made"
_KNOWN = {"torch", "torchvision", "builtins", *sys.stdlib_module_names}  # what calls nothing but what it is given
_METHODS = MODULE_METHODS | OPTIMIZER_METHODS | {"__init__"}


def on_seed(machine: Machine, node: ast.AST) -> None:
    """Note that the generator of the GPU is seeded, or gets a state: the next recurrent layer with dropout makes the state anew."""
    state = machine.torch.dropout_state.slots["now"]
    if _is_eager(machine) and isinstance(state, Host) and state.known and state.value:
        _set(machine, const((*machine.site(node), quoted(node))))


def on_layer(machine: Machine, layer: Object, first: Tensor | None, node: ast.AST) -> None:
    """Look at a call of a recurrent layer: it makes the state, or fails if it would have to in the capture."""
    dropout, mode = layer.slots.get("dropout") or layer.kwargs.get("dropout") or const(0.0), layer.slots.get("training")
    evaluates = isinstance(mode, Host) and mode.known and not mode.value
    if (
        evaluates
        or (isinstance(dropout, Host) and dropout.known and not dropout.value)
        or (first is not None and not first.on_gpu)
    ):
        return
    certain = isinstance(dropout, Host) and dropout.known and (mode is None or (isinstance(mode, Host) and mode.known))
    if not _is_eager(machine):
        if certain:
            _report(machine, node)
    elif certain:
        _set(machine, const(_MADE))
    else:
        on_unknown(machine)


def _report(machine: Machine, node: ast.AST) -> None:
    site = _seeded_at(machine)
    if site is None or machine.quiet or not machine.reporting:
        return
    path, line, column, seeding = site
    machine.report("CG610", node, f"{quoted(node)} sets up the dropout state again: {seeding} comes after the last eager call")
    message = f"after {seeding} a recurrent layer with dropout needs an eager call before the capture"
    machine.add("CG610", path, line, column, message, ())
    _set(machine, const(_MADE))  # the layers behind it would find it


def on_unknown(machine: Machine) -> None:
    """Note that code runs of which nothing is known."""
    if _seeded_at(machine) is not None and _is_eager(machine):
        _set(machine, Value())


def on_library(machine: Machine, name: str, given: list[Value]) -> None:
    """Note that a function of a library ran: it may call a layer if it is not known, or if it gets something to call."""
    if _seeded_at(machine) is None:
        return
    known = name.partition(".")[0] in _KNOWN and not any(map(_may_call, given))
    if not known and not name.startswith("torch.cuda."):
        on_unknown(machine)


def on_method(machine: Machine, receiver: Value, name: str, given: list[Value]) -> None:
    """Note that a method of something of a library's ran."""
    if isinstance(receiver, Object):
        on_library(machine, receiver.name, given)
    elif not isinstance(receiver, (Tensor, Host, Sequence, Mapping)) and name not in _METHODS:
        on_unknown(machine)
    else:
        on_library(machine, "builtins", given)


def _may_call(value: Value) -> bool:
    if isinstance(value, (Sequence, Mapping)):
        return any(map(_may_call, value.each()))
    if isinstance(value, Object):
        return value.name.startswith("torch.nn.") or value.name.partition(".")[0] not in _KNOWN
    return type(value) is Value or isinstance(value, (Function, Bound, Partial, Instance, Choice, Method))


def _seeded_at(machine: Machine) -> tuple[str, int, int, str] | None:
    """Return where the generator was seeded after a layer had made the state, and by what; None if that is not certain."""
    state = machine.torch.dropout_state.slots["now"]
    return state.value if isinstance(state, Host) and isinstance(state.value, tuple) else None


def _is_eager(machine: Machine) -> bool:
    """Tell whether code runs before the capture: also where a function was named, whose first calls warm up."""
    return not machine.inside or ((machine.named or machine.torch.graphing) and not machine.reporting)


def _set(machine: Machine, state: Value) -> None:
    slots = machine.torch.dropout_state.slots
    machine.journal.append((slots, "now", slots["now"]))
    slots["now"] = state
