"""several-graphs-wrong-together: two graphs of one pool are replayed in another order than they were captured."""

import torch

Recorded = tuple[torch.cuda.CUDAGraph, torch.Tensor]


def _record(x: torch.Tensor, pools: list[tuple[int, int]]) -> tuple[Recorded, Recorded]:
    """The first graph has a temporary, the second one gets its memory if the pool is the same."""
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pools[0]):
        a = (x + 1) * 2
    with torch.cuda.graph(second, pool=pools[1]):
        b = x * 5
    return (first, a), (second, b)


def fails() -> None:
    """Alone each graph is right; a replay of the first one destroys the result of the second one."""
    pool = torch.cuda.graph_pool_handle()
    x = torch.ones(1 << 20, device="cuda")
    (first, a), (second, b) = _record(x, [pool, pool])
    second.replay()
    assert b.eq(5).all()
    first.replay()
    assert a.eq(4).all()
    assert not b.eq(5).all()


def works() -> None:
    """A pool for each graph whose output has to survive the other."""
    x = torch.ones(1 << 20, device="cuda")
    (first, a), (second, b) = _record(x, [torch.cuda.graph_pool_handle(), torch.cuda.graph_pool_handle()])
    for value in (1.0, 3.0):
        x.fill_(value)
        second.replay()
        first.replay()
        assert a.eq((value + 1) * 2).all()
        assert b.eq(value * 5).all()
