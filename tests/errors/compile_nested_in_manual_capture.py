"""compile-nested-in-manual-capture: a reduce-overhead function records inside torch.cuda.graph."""

import torch


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """After one warm-up call it wants to record, in the middle of our own capture."""
    fast = torch.compile(double, mode="reduce-overhead")
    x = torch.ones(64, device="cuda")
    fast(x)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        fast(x)


def works() -> None:
    """Default mode has no graphs of its own."""
    compiled = torch.compile(double)
    x = torch.ones(64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            compiled(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = compiled(x)
    for value in range(3):
        x.fill_(value)
        graph.replay()
        assert out[0].item() == 2 * value
