"""Know which CUDA libraries captured code uses, and which hazards end a capture."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Tensor, Value, quoted

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_BLAS = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "chain_matmul"}


def breaks_capture(hazard: str) -> bool:
    """Tell whether a hazard raises a CUDA error inside the capture, so that catching it does not help."""
    return hazard.startswith("CG2") and hazard not in {"CG233", "CG235", "CG236"}


def note_library(machine: Machine, node: ast.AST) -> None:
    """Return which of CUDA's libraries this work needs: the first use of one cannot be captured."""
    library = _library_of(node)
    if library:
        (machine.torch.cold if machine.inside else machine.torch.warm).add(library)


def on_host_read(machine: Machine, tensor: Tensor, node: ast.AST) -> None:
    """Report that the CPU reads a tensor of its own into which a copy from the GPU may still be on its way."""
    message = f"{quoted(node)} reads a copy from the GPU that nothing has waited for"
    if machine.inside:
        if tensor.downloaded:
            machine.report("CG506", node, message)
    elif tensor.storages & machine.torch.inflight:
        machine.add("CG506", *machine.site(node), message, ())


def _library_of(node: ast.AST) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "cuBLAS"
    if isinstance(node, ast.Call):
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        )
        return "cuBLAS" if name in _BLAS else "cuDNN" if name.startswith("conv") else "cuFFT" if "fft" in name else ""
    return ""
