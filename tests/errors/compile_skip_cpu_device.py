"""compile-skip-cpu-device: a bias that was left on the host."""

import torch
from torch._dynamo.utils import counters

ONE_GRAPH = {"triton.cudagraphs": True, "graph_partition": False}


def layer(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return x * 2 + bias.to(x.device)


def fails() -> None:
    """The bias is a CPU tensor; with partition off the whole graph is skipped."""
    fast = torch.compile(layer, options=ONE_GRAPH)
    for _ in range(3):
        fast(torch.ones(64, device="cuda"), torch.ones(64))


def works() -> None:
    """The bias was moved once."""
    bias = torch.ones(64).cuda()
    fast = torch.compile(layer, options=ONE_GRAPH)
    for value in range(6):
        x = torch.full((64,), float(value), device="cuda")
        torch.testing.assert_close(fast(x, bias), x * 2 + 1)
    assert counters["inductor"]["cudagraph_skips"] == 0
