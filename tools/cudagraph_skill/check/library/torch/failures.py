"""Report what an operation on GPU tensors does that a capture cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Tensor, Value, quoted, tensors_in

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine
    from cudagraph_skill.check.library.binding import Arguments
    from cudagraph_skill.check.library.torch.ops import Operation


def report_failures(machine: Machine, row: Operation, args: Arguments, node: ast.AST) -> None:
    """Report each way in which this call fails at capture."""
    if not machine.inside:
        return
    first = args.first()
    on_cpu = isinstance(first, Tensor) and not first.on_gpu
    for failure in row.failures:
        if not on_cpu and (failure.when is None or failure.when(args)):
            machine.report(failure.hazard, node, f"{quoted(node)} {failure.because}")
    if row.multiplies:
        machine.torch.products.append((node, machine.site(node), machine.via()))
    if any(_is_gpu_number(value) for value in args.given(row.numbers)):
        machine.report("CG217", node, f"{quoted(node)} needs the value of a GPU tensor as a Python number")
    for names, hazard, what in ((row.sizes, "CG218", "a size"), (row.places, "CG216", "a place")):
        if any(_has_gpu_number(value) for value in args.given(names)):
            machine.report(hazard, node, f"{quoted(node)} needs the value of a GPU tensor as {what}")


def _is_gpu_number(value: Value) -> bool:
    return isinstance(value, Tensor) and value.on_gpu and not value.ndim


def _has_gpu_number(value: Value) -> bool:
    """Return whether a value is or holds a GPU tensor that could stand for one number."""
    return any(_is_gpu_number(tensor) for tensor in tensors_in(value))
