"""compile-no-speedup: large matrix products hide every launch."""

import time
from collections.abc import Callable

import torch
from torch import nn


def seconds(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    for _ in range(10):
        call(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        call(x)
    torch.cuda.synchronize()
    return time.perf_counter() - start


@torch.no_grad()
def fails() -> None:
    """The GPU is busy all the time: the graph gains nothing."""
    net = nn.Sequential(*(nn.Linear(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(3)))
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    fast = torch.compile(net, backend="cudagraphs")
    assert seconds(fast, x) > 0.85 * seconds(net, x)


@torch.no_grad()
def works() -> None:
    """Forty tiny layers: here launches are the time, and the graph removes them."""
    net = nn.Sequential(*(nn.Linear(64, 64, device="cuda") for _ in range(40)))
    x = torch.randn(8, 64, device="cuda")
    fast = torch.compile(net, backend="cudagraphs")
    assert seconds(fast, x) < 0.9 * seconds(net, x)
    for _ in range(2):
        x = torch.randn(8, 64, device="cuda")
        torch.testing.assert_close(fast(x).clone(), net(x))
