"""pinned-input-refilled-too-early: the host writes the next batch before the recorded copy has read this one."""

import torch

SLOW = 100_000_000  # GPU clock cycles: work of the step before that is still in the queue


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """A graph, the pinned buffer it reads, and the tensors on the device, which live as long as the graph."""
    host = torch.zeros(1024).pin_memory()
    static_x = torch.zeros(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static_x.copy_(host, non_blocking=True)
        out = static_x * 2
    return graph, host, (static_x, out)


def fails() -> None:
    """`replay()` returns at once, so the loop runs ahead of the GPU."""
    graph, host, on_device = _record()
    results = []
    for step in range(3):
        host.fill_(step)
        torch.cuda._sleep(SLOW)
        graph.replay()
        results.append(on_device[1].clone())
    torch.cuda.synchronize()
    assert not results[0].eq(0).all()


def works() -> None:
    """An event behind the replay, waited for before the buffer is written again."""
    graph, host, on_device = _record()
    results, consumed = [], torch.cuda.Event()
    for step in range(3):
        consumed.synchronize()
        host.fill_(step)
        torch.cuda._sleep(SLOW)
        graph.replay()
        consumed.record()
        results.append(on_device[1].clone())
    torch.cuda.synchronize()
    assert all(each.eq(2 * step).all() for step, each in enumerate(results))
