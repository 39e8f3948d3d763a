"""manual-seed-in-capture: a new seed inside the captured function."""

import torch


def fails() -> None:
    """The seed of a capture cannot change."""
    torch.manual_seed(0)
    torch.rand(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.manual_seed(3)
        torch.rand(64, device="cuda")


def works() -> None:
    """Seeding before the replay takes effect in that replay."""
    torch.rand(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.rand(64, device="cuda")
    drawn = []
    for seed in (3, 4, 3):
        torch.cuda.manual_seed(seed)
        graph.replay()
        drawn.append(out.clone())
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])
