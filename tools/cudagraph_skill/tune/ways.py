"""The ways of a call, the simplest first: what each compiles and captures, and how it is written around a function."""

from __future__ import annotations

from typing import NamedTuple

EAGER, COMPILE, REDUCE_OVERHEAD, MANUAL = "eager", "compile", "reduce-overhead", "manual"
MODULES, PARTIAL, MANUAL_COMPILED = "make_graphed_callables", "partial", "manual over compile"
OF_MODULES = "modules"


class Way(NamedTuple):
    """`guest` names it in guest/ways.py. `is_compiled`: its calls are compiled. `by_hand`: the whole call is one capture.

    `module` is a module of guest/wrappers and `wrapper` a name in it ("": torch has what it needs); `decorators` go around a
    function, the outermost first.
    """

    guest: str
    is_compiled: bool = False
    by_hand: bool = False
    module: str = ""
    wrapper: str = ""
    decorators: tuple[str, ...] = ()

    @property
    def capturing(self) -> tuple[str, ...]:
        """Return the decorators that capture, which stand outermost."""
        return self.decorators[: self.by_hand]

    @property
    def compiling(self) -> tuple[str, ...]:
        """Return the decorators that compile."""
        return self.decorators[self.by_hand :]

    def around(self, function: str, warm_ups: str, in_inference_mode: bool = False) -> str:
        """Return the expression of a function in this way; the wrapper that captures by hand gets the argument `warm_ups`."""
        if in_inference_mode and self.compiling:
            function = f"torch.inference_mode()({self.compiling[0]}({function}.__wrapped__))"
        else:
            for decorator in reversed(self.compiling):
                function = f"{decorator}({function})"
        for decorator in self.capturing:
            function = f"{decorator}({function}{warm_ups})"
        return function


WAYS = {
    EAGER: Way("eager"),
    COMPILE: Way("compile", is_compiled=True, decorators=("torch.compile",)),
    REDUCE_OVERHEAD: Way("reduce-overhead", True, False, "reduce_overhead", "reduce_overhead", ("reduce_overhead",)),
    MANUAL: Way("manual", False, True, "graphed", "Graphed", ("Graphed",)),
    MODULES: Way(OF_MODULES, module="graphed_module", wrapper="graph_module"),
    PARTIAL: Way(OF_MODULES, module="graphed_module", wrapper="graph_module"),
    MANUAL_COMPILED: Way("manual over compile", True, True, "graphed", "Graphed", ("Graphed", "torch.compile")),
}
GRAPHS_OF_COMPILED = tuple(name for name, way in WAYS.items() if way.is_compiled and name != COMPILE)
