"""gradients-doubled-zero-or-overwritten: the gradients of the warm-up were still there at capture."""

import torch


def _record(clear: bool) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    weight = torch.ones(4, device="cuda", requires_grad=True)
    x = torch.ones(4, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        (weight * x).sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    if clear:
        weight.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        (weight * x).sum().backward()
    return graph, weight, x


def fails() -> None:
    """Each replay adds to the gradient that the warm-up left."""
    graph, weight, _x = _record(clear=False)
    seen = []
    for _ in range(3):
        graph.replay()
        assert weight.grad is not None
        seen.append(weight.grad[0].item())
    assert seen == [2.0, 3.0, 4.0]


def works() -> None:
    """With None at capture each replay writes the gradient of its own input."""
    graph, weight, x = _record(clear=True)
    for value in (1.0, 5.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert weight.grad is not None
        assert weight.grad.eq(value).all()
