"""graph-slower-than-eager: the code captures again in every step."""

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


def _layers(x: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        x = x + 1
    return x


def fails() -> None:
    """Capture, instantiate, replay once, throw away."""
    x = torch.zeros(1024, device="cuda")
    _layers(x)

    def step() -> torch.Tensor:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = _layers(x)
        graph.replay()
        return out.clone()

    assert _seconds(step) > 1.5 * _seconds(lambda: _layers(x))


def works() -> None:
    """One capture, then only replays."""
    x = torch.zeros(1024, device="cuda")
    _layers(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = _layers(x)
    assert _seconds(graph.replay) < _seconds(lambda: _layers(x))
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert out.eq(value + 20).all()
