"""wrong-after-n-replays: a captured constant was freed, and later somebody else gets its memory."""

import torch

SIZE = 4 << 20  # 16 MiB of floats: such a block is handed out whole


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.ones(SIZE, device="cuda")
    scale = torch.full((SIZE,), 2.0, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x * scale
    return graph, x, scale, out


def fails() -> None:
    """Right for five replays; then a validation buffer takes the place of the scale."""
    graph, _x, scale, out = _record()
    address = scale.data_ptr()
    del scale
    for _ in range(5):
        graph.replay()
        assert out[0].item() == 2.0
    validation = torch.full((SIZE,), 7.0, device="cuda")
    assert validation.data_ptr() == address
    graph.replay()
    assert out[0].item() == 7.0


def works() -> None:
    """The scale lives as long as the graph."""
    graph, x, scale, out = _record()
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert out[0].item() == 2 * value
    validation = torch.full((SIZE,), 7.0, device="cuda")
    assert validation.data_ptr() != scale.data_ptr()
    graph.replay()
    assert out[0].item() == 6.0
