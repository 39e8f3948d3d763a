"""oom-during-capture: the results of the warm-up are alive while the capture takes the same memory again."""

import torch

MIB = 1 << 20


def _allow(mib: int) -> None:
    """Lets torch's allocator have this much, to stand for a small or a full GPU."""
    torch.cuda.set_per_process_memory_fraction(mib * MIB / torch.cuda.get_device_properties(0).total_memory)


def _step(x: torch.Tensor) -> list[torch.Tensor]:
    """Six results of 64 MiB each, by way of intermediates of 32 MiB."""
    return [(x[: 8 * MIB] * k + 1).repeat(2) for k in range(6)]


def _capture_graph(x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = _step(x)
    return graph, out


def fails() -> None:
    """384 MiB from the warm-up and 448 MiB for the graph do not fit into 640 MiB."""
    _allow(640)
    x = torch.ones(16 * MIB, device="cuda")
    warm = _step(x)
    torch.cuda.synchronize()
    graph, out = _capture_graph(x)
    graph.replay()
    assert len(warm) == len(out)


def works() -> None:
    """Nothing of the warm-up is left when the capture begins."""
    _allow(640)
    x = torch.ones(16 * MIB, device="cuda")
    warm = _step(x)
    torch.cuda.synchronize()
    del warm
    graph, out = _capture_graph(x)
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert [each[0].item() for each in out] == [k * value + 1 for k in range(6)]
