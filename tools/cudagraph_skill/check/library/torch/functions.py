"""Call functions of torch and methods of its values: what they return, and what of it breaks or freezes under capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.assumptions import assumed, assuming
from cudagraph_skill.check.interpreter.attributes import Super
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Host,
    Instance,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    number,
    origins_of,
    tensors_in,
)
from cudagraph_skill.check.library import python
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.parameters import spelled
from cudagraph_skill.check.library.torch import (
    autograd,
    distributions,
    factories,
    graphs,
    objects,
    ops,
    random,
    results,
    state,
    tensors,
    transfer,
)
from cudagraph_skill.check.library.torch.attributes import attribute, named
from cudagraph_skill.check.library.torch.devices import where_of
from cudagraph_skill.check.library.torch.elementwise import elementwise
from cudagraph_skill.check.library.torch.factories import cpu_random
from cudagraph_skill.check.library.torch.failures import report_failures
from cudagraph_skill.check.library.torch.in_place import is_in_place, update
from cudagraph_skill.check.library.torch.indexing import index, set_index, update_index

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.library.binding import Arguments
    from cudagraph_skill.check.library.torch.ops import Operation

__all__ = [
    "attribute",
    "call",
    "call_method",
    "cpu_random",
    "elementwise",
    "index",
    "named",
    "operation",
    "set_index",
    "update",
    "update_index",
    "where_of",
]

Args = list[Value]
Kwargs = dict[str, Value]

_READS = {ops.READ, ops.BOOL_READ, ops.LIST_READ}
# Methods of a tensor that are no operation on its values
_OTHER_METHODS = {
    "apply_", "backward", "data_ptr", "map_", "pin_memory", "record_stream", "register_hook", "register_post_accumulate_grad_hook",
    "share_memory_", "storage", "untyped_storage",
}  # fmt: skip


def call(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a function of a library returns."""
    args, kwargs = spelled(name, args, kwargs)
    if name in graphs.MODULES:
        return graphs.graph_module(machine, args, kwargs, node)
    if not name.startswith(("torch.", "torchvision.", "transformer_engine.")) or name == "torch.save":
        return python.call(machine, name, args, kwargs, node)
    if name.startswith("torch.Tensor."):
        return call_method(machine, args[0], name[13:], args[1:], kwargs, node) if args else Value()
    if name.startswith("torch.cuda.") and name.endswith("Tensor") and args and isinstance(args[0], Sequence):
        return factories.legacy(machine, args[0], node)
    if name.endswith(".set_default_validate_args"):  # of any class of distributions
        return distributions.set_default(machine, args, kwargs, node)
    special = objects.function(machine, name, args, kwargs, node)
    if special is not None:
        return special
    last = name.rsplit(".", 1)[-1]
    if last[:1].isupper() and name != "torch.Tensor":
        return _made(machine, name, args, kwargs, node)
    return operation(machine, name, args, kwargs, node)


def _made(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Object:
    """Return an object of a class of torch."""
    made = Object(name, args, kwargs, machine.round)
    made.site, made.call = machine.site(node), node
    if name.endswith(".DistributedDataParallel") and not machine.torch.streams:
        made.slots["on default stream"] = const(True)
    return made


def call_method(machine: Machine, receiver: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a tensor, a container or a library's object returns."""
    if isinstance(receiver, Tensor):
        return _tensor_method(machine, receiver, name, args, kwargs, node)
    if isinstance(receiver, (Object, Instance, Super)):
        return objects.method(machine, receiver, name, args, kwargs, node)
    if type(receiver) is Value and name == "zero_grad":
        if machine.torch.calling is not None:
            machine.torch.calling(machine, receiver, name, args, kwargs, node)
        return autograd.zero_grad(machine, receiver, args, kwargs, node)
    if isinstance(receiver, Host) and receiver.kind == "dtype":
        return Value(mix(name, receiver.sym))
    return python.method(machine, receiver, name, args, kwargs, node)


def _tensor_method(machine: Machine, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    transfers = transfer.METHODS.get(name)
    if transfers is not None:
        return transfers(machine, owner, args, kwargs, node)
    if name in _OTHER_METHODS:
        return tensors.tensor_method(machine, owner, name, args, kwargs, node)
    return operation(machine, f"torch.Tensor.{name}", [owner, *args], kwargs, node)


def operation(machine: Machine, full: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what one operation returns; `args` begin with the tensor that a method belongs to."""
    row = ops.find(full)
    bound = bind(row.signature, args, kwargs)
    first = bound.first()
    if type(first) is Value and machine.inside and row.failures and args and args[0] is first:
        # What fails with a tensor is likely to fail: nothing else is known of the argument
        tensor = assumed(first)
        return assuming(machine, [tensor], lambda: operation(machine, full, [tensor, *args[1:]], kwargs, node))
    if row.returns in {ops.ANSWER, ops.BOOL_ANSWER}:
        return _answer(row, bound, full)
    if row.returns == ops.UPLOAD:
        return factories.upload(machine, row, bound, node)
    if row.returns == ops.FACTORY or (row.returns == ops.LIKE and first is not None):
        return factories.make(machine, row, bound, node)
    if row.returns == ops.ITSELF and isinstance(first, Tensor):
        return first
    return _on_tensors(machine, full, row, bound, node)


def _on_tensors(machine: Machine, full: str, row: Operation, args: Arguments, node: ast.AST) -> Value:
    """Run an operation that works on the values of tensors."""
    name = full.rsplit(".", 1)[-1]
    values, first, target = args.values(), args.first(), args.get("out")
    tensors = [tensor for value in values for tensor in tensors_in(value)]
    on_gpu = any(tensor.on_gpu for tensor in tensors)
    if on_gpu:
        report_failures(machine, row, args, node)
    if (generator := args.get("generator")) is not None:
        random.on_generator(machine, generator, on_gpu=on_gpu, node=node)
    if is_in_place(name) and isinstance(first, Tensor):
        return update(machine, first, values[1:], node, full)
    if on_gpu and row.returns in _READS:
        machine.gpu_work(node, *values)
        return _read(machine, row)
    if isinstance(target, Tensor):
        return update(machine, target, values, node)
    if not tensors:
        return _without_tensors(machine, name, row, args, node)
    if not on_gpu:
        return _on_cpu(machine, name, row, args, node, tensors)
    machine.gpu_work(node, *values)
    return results.result(machine, row, args, tensors)


def _answer(row: Operation, args: Arguments, full: str) -> Value:
    """Return what the host knows of a tensor without its values."""
    name, owner = full.rsplit(".", 1)[-1], args.first()
    if name == "is_tensor" and isinstance(owner, (Tensor, Host)):
        return const(isinstance(owner, Tensor))
    if not isinstance(owner, Tensor):
        return Value(mix(name))
    if name in {"dim", "ndimension"} and owner.ndim is not None:
        return const(owner.ndim)
    others = args.values()[1:]
    if name == "size" and not others:
        return Host("size", sym=mix("shape", owner.ndim, owner.first))
    kind = "bool" if row.returns == ops.BOOL_ANSWER else "extent" if name == "size" else "number"
    return Host(kind, sym=mix(name, owner.ndim, owner.dtype, *(value.sym for value in others)))


def _read(machine: Machine, row: Operation) -> Value:
    if row.returns == ops.LIST_READ:
        return Sequence("list", None, machine.round, number())
    return Host("bool" if row.returns == ops.BOOL_READ else "number")


def _without_tensors(machine: Machine, name: str, row: Operation, args: Arguments, node: ast.AST) -> Value:
    """Run an operation on values that may be tensors without being known as such."""
    values = args.values()
    unknown = any(type(value) is Value for value in args.positional())
    if row.random:
        where = "" if unknown else where_of(machine, args.get("device"))
        if where == "cpu":
            return cpu_random(machine, node, args.get("generator"))
        if machine.inside or not unknown:
            machine.gpu_work(node, *values)
        return Tensor(where, dtype="" if unknown else "float")
    joined = row.returns == ops.JOINED
    if joined or type(args.first()) is Value:
        if machine.inside:
            machine.gpu_work(node, *values)
        if joined:
            return Tensor("")
    return Value(mix(name, *(value.sym for value in values)), origins_of(values))


def _on_cpu(machine: Machine, name: str, row: Operation, args: Arguments, node: ast.AST, tensors: list[Tensor]) -> Value:
    """Run an operation on CPU tensors alone: Python's work, which no replay repeats."""
    values, is_view = args.values(), row.returns == ops.VIEW
    if not is_view:
        for tensor in tensors:
            state.on_host_read(machine, tensor, node)
    if row.returns in _READS:
        return Host("number", sym=mix(name, *(tensor.sym for tensor in tensors)), origins=origins_of(tensors))
    if row.random and machine.inside:
        return cpu_random(machine, node, args.get("generator"))
    made = results.result(machine, row, args, tensors)
    for tensor in tensors_in(made):
        tensor.sym = tensor.sym if is_view else mix(name, *(value.sym for value in values))
        tensor.origins |= origins_of(values)
    return made
