"""same-dropout-mask-every-replay: the mask was drawn outside the captured region."""

import torch
from torch import nn


def fails() -> None:
    """The mask is an input like any other: no replay draws it again."""
    x = torch.ones(4096, device="cuda")
    keep = torch.rand(4096, device="cuda") > 0.5
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x * keep * 2
    graph.replay()
    first = out.clone()
    graph.replay()
    assert torch.equal(out, first)


def works() -> None:
    """Drawn inside on the device: each replay takes the next numbers."""
    x = torch.ones(4096, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = nn.functional.dropout(x, p=0.5, training=True)
    masks = []
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert ((out == 0) | (out == 2 * value)).all()
        masks.append(out != 0)
    assert not torch.equal(masks[0], masks[1])
