"""Remember what torch keeps between the calls of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.symbols import fresh
from cudagraph_skill.check.interpreter.values import Object, Partial, Tensor, Value, const

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.frames import Site


def _in_slot(value: object) -> Object:
    made = Object("state", [], {}, 0)
    made.slots["now"] = const(value)
    return made


class State:
    """Remember what torch keeps between calls: streams, hooks, gradients, and what a script has captured so far."""

    def __init__(self) -> None:
        self.default_device, self.default_of_call = "cpu", False  # whether a function set it, for what it calls itself
        self.inputs: set[int] = set()  # storages of the captured function's arguments
        self.mark = 0  # storages below it are older than this round
        self.streams: list[tuple[Object, ast.AST]] = []
        self.entered: dict[int, tuple[Site, tuple[str, ...]]] = {}  # where each became the current one, by the id of that code
        self.forked: set[int] = set()
        self.unjoined: dict[int, ast.AST] = {}
        self.unforked: set[int] = set()
        self.followers: set[int] = set()  # streams that waited for one of which nothing is known: it may be the capturing one
        self.capture_stream = Object("torch.cuda.current_stream", [], {}, 0)
        self.hooks: dict[int, list[tuple[str, Value]]] = {}
        self.tensor_hooks: list[Value] = []
        self.grads: dict[int, Value] = {}
        self.backwards: list[tuple[Value, Value]] = []
        self.warm: set[str] = set()  # libraries that ran outside a capture
        self.cold: set[str] = set()  # libraries that this capture uses
        self.script = False  # the region stands in a script that does its own warm-up
        # What the reader of captures is told, each with the machine in front
        self.keeping: Callable[..., None] | None = None  # a list, its new item, the node
        self.setting: Callable[..., None] | None = None  # an owner, an attribute, its new value, the node
        self.calling: Callable[..., None] | None = None  # an object, a method, its arguments, the node
        self.sparse_layers: list[Object] = []
        self.downloads: set[int] = set()  # CPU memory that the capture copies into
        self.inflight: set[int] = set()  # the same after a replay, until something waits
        self.autocasts: list[tuple[Object, tuple[str, int, int]]] = []  # entered around the code that runs, cache on
        # make_graphed_callables is capturing; what torch.compile graphs is read: it inlines functions that are compiled on their own
        self.graphing, self.compiling = False, False
        self.no_grad = 0
        # cuDNN's, in a slot because branches may differ: "made", or where the generator was seeded since
        self.dropout_state = _in_slot("")
        self.backward_at: tuple[str, int, int] | None = None  # the captured backward
        self.went_back = False  # there was a backward in this round
        self.zeroed = False  # captured code drops or zeroes gradients itself
        self.gradients_left = False  # an earlier backward left gradients
        self.gradients_held = False  # gradients have memory from before the capture, be it zeroed
        self.dropped = False  # captured code has dropped gradients before its backward
        self.stepped: set[int] = set()  # memory of parameters that captured optimizers of this round step
        self.lazy: list[tuple[str, int, int]] = []  # first calls of lazy layers
        self.outputs: dict[int, Value] = {}  # what each graphed callable returns
        # Memory that calls of reduce-overhead functions gave, and whether a backward may come that keeps it
        self.compiled: dict[int, bool] = {}
        self.ddp_calls = 0  # in which DDP may still change
        self.mode_at: dict[int, tuple[str, int, int]] = {}
        self.graphed_called = False
        self.graph_modules: dict[int, tuple[Partial, ast.AST]] = {}  # those that were not called yet, and where they are made
        self.trained: set[int] = set()  # memory of parameters that layers used and that are not frozen
        self.rebound: dict[int, tuple[Tensor, frozenset[int], list[ast.AST]]] = {}  # tensors whose .data this round replaces
        self.rebound_at: dict[int, tuple[str, int, int]] = {}
        self.lasting_hooks: list[Value] = []  # of tensors, registered before the capture
        self.files_change = False  # other code writes files between calls
        self.log_level = ""
        self.validates = True  # distributions check their arguments, unless they are told
        self.products: list[tuple[ast.AST, tuple[str, int, int], tuple[str, ...]]] = []  # prod and cumprod of this round
        self.scheduled: set[int] = set()  # parameter groups whose schedule is stepped in the capture

    def begin(self) -> None:
        """Begin a new call of the captured code."""
        self.mark = fresh()
        self.streams, self.forked, self.unjoined, self.unforked = [], set(), {}, set()
        self.followers = set()
        self.backwards, self.tensor_hooks, self.cold, self.rebound = [], [], set(), {}
        self.products = []
        self.dropped, self.went_back, self.stepped = False, False, set()

    def grad_of(self, tensor: Tensor) -> Value:
        """Return the gradient of a tensor; tensors on the same memory share it."""
        memory = min(tensor.storages)
        if memory not in self.grads:
            self.grads[memory] = Tensor(tensor.device, tensor.ndim, "float")
        return self.grads[memory]
