"""random-values-repeat-every-replay: fork_rng inside the captured function."""

import torch


def fails() -> None:
    """The rewind leaves a total of 0, so no replay refreshes seed and offset."""
    torch.randn(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.random.fork_rng(devices=[torch.cuda.current_device()]):
        out = torch.randn(64, device="cuda")
    graph.replay()
    first = out.clone()
    graph.replay()
    assert torch.equal(out, first)


def works() -> None:
    """A plain draw moves on with every replay."""
    graph = torch.cuda.CUDAGraph()
    x = torch.zeros(64, device="cuda").add(torch.randn(64, device="cuda")).zero_()
    with torch.cuda.graph(graph):
        out = x + torch.randn(64, device="cuda")
    graph.replay()
    first = out.clone()
    x.fill_(1.0)
    graph.replay()
    assert not torch.allclose(out - 1, first)
