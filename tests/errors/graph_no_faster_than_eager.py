"""graph-no-faster-than-eager: the GPU was busy all the time, so there were no gaps to remove."""

import time
from collections.abc import Callable

import torch


def _seconds(function: Callable[[], object]) -> float:
    """The best of 20 calls, each with the GPU idle before and after."""
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def _record(function: Callable[[], torch.Tensor]) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function()
    return graph, out


def fails() -> None:
    """Three matrix products that take milliseconds each."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        return a @ (a @ (a @ a))

    graph, _out = _record(step)
    assert _seconds(step) < 1.15 * _seconds(graph.replay)


def works() -> None:
    """Two hundred kernels that take a microsecond each: the CPU was the brake."""
    x = torch.zeros(1024, device="cuda")

    def step() -> torch.Tensor:
        y = x
        for _ in range(200):
            y = y + 1
        return y

    graph, out = _record(step)
    assert _seconds(step) > 1.3 * _seconds(graph.replay)
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert out.eq(value + 200).all()
