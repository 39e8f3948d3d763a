"""right-only-with-print-or-synchronize: the replay runs on another stream and does not wait for its input."""

import torch

SLOW = 200_000_000  # GPU clock cycles, about a tenth of a second: stands for a slow copy or kernel


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    static_x = torch.zeros(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static_x * 2
    graph.replay()
    torch.cuda.synchronize()
    return graph, static_x, out


def fails() -> None:
    """The replay reads before the input is written."""
    graph, static_x, out = _record()
    batch = torch.full((1024,), 3.0, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    torch.cuda._sleep(SLOW)
    static_x.copy_(batch)
    with torch.cuda.stream(stream):
        graph.replay()
    torch.cuda.synchronize()
    assert not out.eq(6).all()


def works() -> None:
    """Two waits, one on each side of the replay."""
    graph, static_x, out = _record()
    stream, main = torch.cuda.Stream(), torch.cuda.current_stream()
    for value in (3.0, 5.0):
        torch.cuda._sleep(SLOW)
        static_x.fill_(value)
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            graph.replay()
        main.wait_stream(stream)
        assert out.eq(2 * value).all()
