"""first-replay-repeats-numbers: torch <=2.11 writes offset 0 on the capture's stream, here after the replay wrote its own."""

import torch

_LATE = 200_000_000  # cycles of GPU work before the capture on its stream, 0.1 s: the stream lags, as on a busy GPU
_LATER = 4 * _LATE  # the graph draws only after that


def _eager() -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers from the generator's start on, and those that follow the first draw."""
    torch.manual_seed(1)
    first = torch.rand(65536, device="cuda")
    torch.manual_seed(1)
    torch.rand(8, device="cuda")
    return first, torch.rand(65536, device="cuda")


def _captured(stream: torch.cuda.Stream) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    torch.manual_seed(1)
    torch.rand(8, device="cuda")
    drawn = torch.empty(65536, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        torch.full((1,), 1, device="cuda")  # memory and kernel that the start of a capture needs: getting them waits for the GPU
        torch.cuda._sleep(1)
        torch.cuda.synchronize()
        torch.cuda._sleep(_LATE)
        graph.capture_begin()
        torch.cuda._sleep(_LATER)
        drawn.uniform_()
        graph.capture_end()
    return graph, drawn


def fails() -> None:
    """Replayed at once on another stream: the first replay draws from the generator's start, the next is right."""
    old, right = _eager()
    graph, drawn = _captured(torch.cuda.Stream())
    offset = torch.cuda.default_generators[0].get_offset()
    graph.replay()
    assert torch.equal(drawn, old)
    assert not torch.equal(drawn, right)
    torch.cuda.default_generators[0].set_offset(offset)
    graph.replay()
    assert torch.equal(drawn, right)


def works() -> None:
    """The replay waits for the capture's stream."""
    _, right = _eager()
    stream = torch.cuda.Stream()
    graph, drawn = _captured(stream)
    torch.cuda.current_stream().wait_stream(stream)
    graph.replay()
    assert torch.equal(drawn, right)
