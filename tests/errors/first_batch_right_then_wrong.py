"""first-batch-right-then-wrong: one of two inputs is refreshed, the other one is forgotten."""

import torch

BATCHES = [(1.0, 1.0), (2.0, 0.0), (3.0, 1.0)]  # value of the tokens, value of the mask


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Captured on the first batch, as most code does."""
    tokens = torch.full((8,), BATCHES[0][0], device="cuda")
    mask = torch.full((8,), BATCHES[0][1], device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = tokens * mask
    return graph, tokens, mask, out


def fails() -> None:
    """The first result is right, the second one uses the mask of the first batch."""
    graph, tokens, _mask, out = _record()
    right = []
    for value, keep in BATCHES:
        tokens.fill_(value)
        graph.replay()
        right.append(bool(out.eq(value * keep).all()))
    assert right == [True, False, True]


def works() -> None:
    """Everything that differs between batches is written before each replay."""
    graph, tokens, mask, out = _record()
    for value, keep in BATCHES:
        tokens.fill_(value)
        mask.fill_(keep)
        graph.replay()
        assert out.eq(value * keep).all()
