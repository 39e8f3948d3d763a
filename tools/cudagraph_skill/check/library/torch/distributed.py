"""Follow collectives, process groups and DistributedDataParallel."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import Host, Object, Sequence, Value, const, is_none, number, quoted, tensors_in
from cudagraph_skill.check.library import stdlib

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_COLLECTIVES = {"all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "broadcast", "reduce",
                "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv", "scatter", "gather"}  # fmt: skip
_OBJECT_COLLECTIVES = {"broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list", "send_object_list",
                       "recv_object_list"}  # fmt: skip


def _is_gloo(group: Value | None) -> bool:
    backend = group.kwargs.get("backend") if isinstance(group, Object) else None
    return isinstance(backend, Host) and backend.value == "gloo"


def _same_on_all_ranks(machine: Machine, test: ast.AST) -> bool:
    """Tell whether both branches of a condition call the same collective, or one sends what the other receives."""
    for node in ast.walk(machine.frame.module.tree):
        if isinstance(node, ast.If) and node.test is test:
            first, second = (_collectives_in(branch) for branch in (node.body, node.orelse))
            names = [call[0] for call in first], [call[0] for call in second]
            if {tuple(names[0]), tuple(names[1])} in ({("send",), ("recv",)}, {("isend",), ("irecv",)}):
                return True
            return names[0] == names[1] and (len(first) == 1 or first == second)
    return False


def _collectives_in(statements: list[ast.stmt]) -> list[tuple[str, str]]:
    calls = [call for statement in statements for call in ast.walk(statement) if isinstance(call, ast.Call)]
    named = [(call.func.attr if isinstance(call.func, ast.Attribute) else "", ast.unparse(call)) for call in calls]
    return [call for call in named if call[0] in _COLLECTIVES]


def on_dropped(machine: Machine, made: Value, node: ast.AST) -> None:
    """Look at a statement that drops the value of a call."""
    if isinstance(made, Object) and made.name == "torch.distributed.Work":
        machine.report("CG703", node, f"{quoted(node)} drops the handle: nothing orders what follows after the collective")


def collective(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a function of `torch.distributed` returns."""
    last = name.rsplit(".", 1)[-1]
    if last in _COLLECTIVES:
        return _run_collective(machine, args, kwargs, node)
    if last in {"barrier", "monitored_barrier"}:
        machine.report("CG701", node, f"{quoted(node)} makes the host wait for all ranks")
    elif last in _OBJECT_COLLECTIVES:
        machine.report("CG702", node, f"{quoted(node)} pickles objects and copies them through the host")
    if last == "get_rank":
        return number(mix(name), stdlib.rank_origin(machine, node))
    if last == "get_world_size":
        return number(mix(name))
    is_object = last == "new_group" or last[:1].isupper()
    return Object(name, args, kwargs, machine.round) if is_object else Value(mix(name))


def _run_collective(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = tensors_in(Sequence("list", [*args, *kwargs.values()], 0), 4)
    if given and all(not tensor.on_gpu for tensor in given):
        machine.report("CG707", node, f"{quoted(node)} sends CPU tensors: the graph does not hold that")
    machine.gpu_work(node, *args)
    for origins, where, _ in machine.control:
        if where is not None and any(origin.id == "CG706" for origin in origins) and not _same_on_all_ranks(machine, where):
            machine.report("CG706", where, f"{quoted(where)} lets ranks capture different collectives, or another order")
    _note_communicator(machine, kwargs.get("group"), node)
    handle = kwargs.get("async_op")
    is_asynchronous = isinstance(handle, Host) and handle.value is True
    return Object("torch.distributed.Work", args, kwargs, machine.round) if is_asynchronous else const(None)


def _note_communicator(machine: Machine, group: Value | None, node: ast.AST) -> None:
    """Note that a group has its communicator, which its first collective makes: not in a capture."""
    channel = f"NCCL {group.sym if group is not None and not is_none(group) else 0}"
    if not machine.inside:
        machine.torch.warm.add(channel)
    elif machine.torch.script and channel not in machine.torch.warm and not _is_gloo(group):
        what = "is the first collective of its group: the communicator is made in the capture"
        machine.report("CG704", node, f"{quoted(node)} {what}")


def call_ddp(machine: Machine, owner: Object, node: ast.AST) -> None:
    """Count the steps of DistributedDataParallel, which rebuilds its buckets in the first ones."""
    count = owner.slots.get("calls")
    calls = count.value if isinstance(count, Host) and isinstance(count.value, int) else 0
    if not machine.inside:
        owner.slots["calls"] = const(calls + 1)
        machine.torch.ddp_calls += calls < 11
    elif machine.torch.script and not machine.torch.no_grad and not machine.torch.graphing:
        if calls < 11 and not machine.hurried:
            machine.report(
                "CG705", node, f"{quoted(node)} is captured after {calls} steps: DDP needs 11, in which it rebuilds its buckets"
            )
        if "on default stream" in owner.slots:
            machine.report_at(
                "CG705", owner, "this DDP is built on the default stream, which its gradient hooks then belong to"
            )


def of_work(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a collective's handle returns."""
    del machine, owner, name, args, kwargs, node
    return const(None)
