"""last-batch-wrong: the last batch is smaller, and the rows behind it are those of the batch before."""

import torch

BATCHES = [torch.full((8,), 4.0), torch.full((3,), 1.0)]


def fails() -> None:
    """The mean of the last batch should be 1."""
    static_x = torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = static_x.mean()
    losses = []
    for batch in BATCHES:
        static_x[: len(batch)].copy_(batch)
        graph.replay()
        losses.append(loss.item())
    assert losses == [4.0, (3 * 1.0 + 5 * 4.0) / 8]


def works() -> None:
    """A count on the device masks the rows behind it."""
    static_x = torch.zeros(8, device="cuda")
    rows, count = torch.arange(8, device="cuda"), torch.zeros((), device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = torch.where(rows < count, static_x, 0.0).sum() / count
    losses = []
    for batch in BATCHES:
        static_x[: len(batch)].copy_(batch)
        count.fill_(len(batch))
        graph.replay()
        losses.append(loss.item())
    assert losses == [4.0, 1.0]
