"""same-output-every-time: the input is assigned instead of copied, and a Python number is part of the graph."""

import torch


def fails() -> None:
    """Three batches and three temperatures, one result."""
    static_x, temperature = torch.ones(4, device="cuda"), 1.0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static_x / temperature
    seen = []
    for step in range(1, 4):
        static_x = torch.full((4,), float(step), device="cuda")
        temperature = 0.5
        graph.replay()
        seen.append(out.clone())
    assert temperature == 0.5
    assert static_x.eq(3).all()
    assert all(torch.equal(each, torch.ones(4, device="cuda")) for each in seen)


def works() -> None:
    """`copy_` into the captured input, and a number that lives on the device."""
    static_x, temperature = torch.ones(4, device="cuda"), torch.ones((), device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static_x / temperature
    for step in range(1, 4):
        batch = torch.full((4,), float(step), device="cuda")
        static_x.copy_(batch)
        temperature.fill_(0.5 * step)
        graph.replay()
        torch.testing.assert_close(out, batch / (0.5 * step))
