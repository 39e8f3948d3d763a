"""capture-takes-long: a full garbage collection at the start of every capture."""

import time

import torch


def _captures(x: torch.Tensor) -> tuple[float, torch.cuda.CUDAGraph, torch.Tensor]:
    """Seconds for the second of two captures; the first one pays for loading kernels."""
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = x * 2
        seconds = time.perf_counter() - start
    return seconds, graph, out


def fails() -> None:
    """What torch 2.8 and older always did, in a process with many Python objects."""
    torch.compiler.config.force_cudagraph_gc = True
    ballast = [[number] for number in range(5_000_000)]
    seconds, _graph, _out = _captures(torch.ones(1024, device="cuda"))
    assert len(ballast) == 5_000_000
    assert seconds > 0.1


def works() -> None:
    """Without it the number of Python objects does not matter."""
    torch.compiler.config.force_cudagraph_gc = False
    ballast = [[number] for number in range(5_000_000)]
    x = torch.ones(1024, device="cuda")
    seconds, graph, out = _captures(x)
    assert len(ballast) == 5_000_000
    assert seconds < 0.1
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert out.eq(2 * value).all()
