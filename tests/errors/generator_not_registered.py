"""generator-not-registered: a generator of your own in a capture."""

import torch


def fails() -> None:
    """Up to torch 2.13 the graph does not know this generator."""
    generator = torch.Generator(device="cuda")
    torch.randn(64, device="cuda", generator=generator)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.randn(64, device="cuda", generator=generator)


def works() -> None:
    """It is registered before the capture; from torch 2.14 on the call does nothing."""
    generator = torch.Generator(device="cuda")
    torch.randn(64, device="cuda", generator=generator)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        out = torch.randn(64, device="cuda", generator=generator)
    drawn = []
    for seed in (1, 2, 1):
        generator.manual_seed(seed)
        graph.replay()
        drawn.append(out.clone())
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])
