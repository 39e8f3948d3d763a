"""offset-increment-outside-capture: random numbers on a stream that does not take part in the open capture."""

import torch


def fails() -> None:
    """The side stream was never forked from the capture, so it draws eagerly (torch <= 2.11)."""
    x = torch.randn(64, device="cuda")
    noise = torch.empty(64, device="cuda").normal_()
    x.mul_(2).add(noise)
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2)
        with torch.cuda.stream(side):
            noise.normal_()


def works() -> None:
    """Forked and joined, the stream belongs to the capture."""
    x = torch.randn(64, device="cuda")
    noise = torch.empty(64, device="cuda").normal_()
    x.mul_(2).add(noise)
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            noise.normal_()
        torch.cuda.current_stream().wait_stream(side)
        out = x + noise
    drawn = []
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert torch.equal(out, x + noise)
        drawn.append(noise.clone())
    assert not torch.equal(drawn[0], drawn[1])
