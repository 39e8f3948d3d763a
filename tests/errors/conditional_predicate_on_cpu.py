"""conditional-predicate-on-cpu: `torch.cond` as a graph node with a predicate that lives on the CPU."""

# needs: torch>=2.13 (not in 2.11)
import torch
from torch._higher_order_ops.cudagraph_conditional_nodes import (
    ControlFlowOpWarmupDispatchMode,
    CUDAGraphCaptureControlFlowOpDispatchMode,
)


def _double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def _less(t: torch.Tensor) -> torch.Tensor:
    return t - 1


def fails() -> None:
    """The GPU cannot read a CPU flag when the graph runs."""
    x, flag = torch.ones(8, device="cuda"), torch.tensor(True)
    with ControlFlowOpWarmupDispatchMode():
        torch.cond(flag, _double, _less, (x,))


def works() -> None:
    """The flag is a CUDA tensor and decides at every replay."""
    x, flag = torch.ones(8, device="cuda"), torch.tensor(True, device="cuda")
    with ControlFlowOpWarmupDispatchMode():
        torch.cond(flag, _double, _less, (x,))
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g), CUDAGraphCaptureControlFlowOpDispatchMode():
        y = torch.cond(flag, _double, _less, (x,))
    for value, taken in ((3.0, True), (5.0, False)):
        x.fill_(value)
        flag.fill_(taken)
        g.replay()
        assert y.eq(value * 2 if taken else value - 1).all()
