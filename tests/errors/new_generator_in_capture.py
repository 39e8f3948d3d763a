"""new-generator-in-capture: a torch.Generator made inside the captured function."""

import torch


def fails() -> None:
    """The pipeline makes a generator for each call."""
    torch.rand(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        generator = torch.Generator(device="cuda").manual_seed(1)
        torch.randn(64, device="cuda", generator=generator)


def works() -> None:
    """One generator lives outside; each request seeds it before the replay."""
    generator = torch.Generator(device="cuda")
    noise = torch.zeros(64, device="cuda")
    noise.mul_(2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = noise * 2
    for seed in (1, 2):
        noise.normal_(generator=generator.manual_seed(seed))
        graph.replay()
        want = torch.empty(64, device="cuda").normal_(generator=torch.Generator(device="cuda").manual_seed(seed))
        assert torch.equal(out, want * 2)
