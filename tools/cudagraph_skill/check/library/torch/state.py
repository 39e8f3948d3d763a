"""Know what torch keeps between the calls of a program."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Object, Sequence, Tensor, Value, fresh, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_BLAS = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "chain_matmul"}


class State:
    """What torch itself keeps: streams, hooks, gradients, and what a script captured so far."""

    def __init__(self) -> None:
        self.default_device = "cpu"
        self.inputs: set[int] = set()  # storages of the captured function's arguments
        self.mark = 0  # storages below it are older than this round
        self.streams: list[tuple[Object, ast.AST]] = []
        self.forked: set[int] = set()
        self.unjoined: dict[int, ast.AST] = {}
        self.unforked: set[int] = set()
        self.capture_stream = Object("torch.cuda.current_stream", [], {}, 0)
        self.hooks: dict[int, list[tuple[str, Value]]] = {}
        self.tensor_hooks: list[Value] = []
        self.grads: dict[int, Value] = {}
        self.backwards: list[tuple[Value, Value]] = []
        self.warm: set[str] = set()  # libraries that ran outside a capture
        self.cold: set[str] = set()  # libraries that this capture uses
        self.script = False  # the region stands in a script that does its own warm-up
        self.keeping: Callable[[Machine, Sequence, Value, ast.AST], None] | None = None
        self.setting: Callable[[Machine, Value, str, Value, ast.AST], None] | None = None
        self.calling: Callable[[Machine, Value, str, Args, Kwargs, ast.AST], None] | None = None
        self.sparse_layers: list[Object] = []
        self.downloads: set[int] = set()  # CPU memory that the capture copies into
        self.inflight: set[int] = set()  # the same after a replay, until something waits
        self.autocasts: list[tuple[Object, tuple[str, int, int]]] = []  # entered around the code that runs, cache on
        self.graphing = False  # make_graphed_callables is capturing
        self.no_grad = 0
        self.backward_at: tuple[str, int, int] | None = None  # the captured backward
        self.went_back = False  # there was a backward in this round
        self.zeroed = False  # captured code drops or zeroes gradients itself
        self.gradients_left = False  # an earlier backward left gradients
        self.gradients_held = False  # gradients have memory from before the capture, be it zeroed
        self.dropped = False  # captured code has dropped gradients before its backward
        self.stepped: set[int] = set()  # memory of parameters that captured optimizers of this round step
        self.lazy: list[tuple[str, int, int]] = []  # first calls of lazy layers
        self.outputs: dict[int, Value] = {}  # what each graphed callable returns
        self.ddp_calls = 0  # in which DDP may still change
        self.mode_at: dict[int, tuple[str, int, int]] = {}
        self.graphed_called = False
        self.trained: set[int] = set()  # memory of parameters that layers used and that are not frozen
        self.rebound: dict[int, tuple[Tensor, frozenset[int], list[ast.AST]]] = {}  # tensors whose .data this round replaces
        self.rebound_at: dict[int, tuple[str, int, int]] = {}
        self.lasting_hooks: list[Value] = []  # of tensors, registered before the capture
        self.files_change = False  # other code writes files between calls
        self.log_level = ""
        self.products: list[tuple[ast.AST, tuple[str, int, int], tuple[str, ...]]] = []  # prod and cumprod of this round
        self.scheduled: set[int] = set()  # parameter groups whose schedule is stepped in the capture

    def begin(self) -> None:
        """A new call of the captured code."""
        self.mark = fresh()
        self.streams, self.forked, self.unjoined, self.unforked = [], set(), {}, set()
        self.backwards, self.tensor_hooks, self.cold, self.rebound = [], [], set(), {}
        self.products = []
        self.dropped, self.went_back, self.stepped = False, False, set()

    def grad_of(self, tensor: Tensor) -> Value:
        """The gradient of a tensor: one place for each memory."""
        memory = min(tensor.storages)
        if memory not in self.grads:
            self.grads[memory] = Tensor(tensor.device, tensor.ndim, "float")
        return self.grads[memory]

    def on_keep(self, machine: Machine, owner: Sequence, new: Value, node: ast.AST) -> None:
        """Something is put into a list."""
        if self.keeping is not None:
            self.keeping(machine, owner, new, node)


def breaks_capture(hazard: str) -> bool:
    """Whether a hazard raises a CUDA error inside the capture, so that catching it does not help."""
    return hazard.startswith("CG2") and hazard not in {"CG233", "CG235", "CG236"}


def note_library(machine: Machine, node: ast.AST) -> None:
    """Which of CUDA's libraries this work needs: the first use of one cannot be captured."""
    library = _library_of(node)
    if library:
        (machine.torch.cold if machine.inside else machine.torch.warm).add(library)


def on_host_read(machine: Machine, tensor: Tensor, node: ast.AST) -> None:
    """The CPU reads a tensor of its own: is a copy from the GPU still on its way into it?"""
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
