"""Follow random generators, seeds and random states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import Host, Object, Sequence, Value, const, device, quoted
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import devices, recurrent

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def forks_gpu(context: Value) -> bool:
    """Return whether `fork_rng` saves the random state of GPUs."""
    if not isinstance(context, Object):
        return True
    bound = bind("devices, enabled", context.args, context.kwargs)
    devices, enabled = bound.get("devices"), bound.get("enabled")
    none = isinstance(devices, Sequence) and devices.items == []
    return not none and not (isinstance(enabled, Host) and enabled.value is False)


def generator(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make a random generator."""
    where = devices.where_of(machine, bind("device", args, kwargs).get("device") or const("cpu"))
    if where != "cpu" and machine.inside:
        machine.report("CG611", node, f"{quoted(node)} makes a generator inside the capture")
    made = Object("torch.Generator", args, kwargs, machine.round)
    made.slots["device"] = device(where)
    return made


def default_generator() -> Object:
    """Return one of `torch.cuda.default_generators`, which every graph knows."""
    made = Object("torch.Generator", [], {}, 0)
    made.slots = {"device": device("cuda"), "registered": const(True), "default": const(True)}
    return made


def on_generator(machine: Machine, generator: Value, *, on_gpu: bool, node: ast.AST) -> None:
    """Look at an operation that draws from a generator of the user's."""
    if (
        not isinstance(generator, Object)
        or generator.name != "torch.Generator"
        or not on_gpu
        or "registered" in generator.slots
    ):
        return
    if generator.made >= machine.round and machine.inside:
        return  # reported where it was made
    where = generator.slots.get("device")
    if isinstance(where, Host) and where.value != "cpu":
        machine.report("CG604", node, f"{quoted(node)} draws from a generator that is not registered with the graph")


def seed(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Seed the default generators."""
    del args, kwargs
    recurrent.on_seed(machine, node)
    machine.report("CG605", node, f"{quoted(node)} seeds the generator inside the capture")
    return Object("torch.Generator", [], {}, machine.round)


def set_state(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Set the random state of the GPU."""
    del args, kwargs
    recurrent.on_seed(machine, node)
    machine.report("CG606", node, f"{quoted(node)} sets the random state at capture only: replays go on from where they are")
    return const(None)


def of_generator(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a generator returns."""
    del args, kwargs
    where = owner.slots.get("device")
    if "default" in owner.slots and name in {"manual_seed", "seed", "set_state", "set_offset"}:
        recurrent.on_seed(machine, node)
    if name in {"manual_seed", "seed"}:
        if machine.inside and isinstance(where, Host) and where.value != "cpu" and owner.made < machine.round:
            machine.report("CG605", node, f"{quoted(node)} seeds a generator inside the capture")
        return owner
    if name == "set_state":
        machine.report("CG606", node, f"{quoted(node)} sets the random state at capture only")
    return Value(mix(name))
