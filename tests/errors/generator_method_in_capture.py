"""generator-method-in-capture: the generator's offset is read inside the region."""

import torch
from torch.nn import functional


def fails() -> None:
    """get_offset is refused while capturing."""
    x = torch.randn(64, device="cuda")
    functional.dropout(x)
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        generator.get_offset()
        functional.dropout(x)


def works() -> None:
    """Between replays the offset is the true position, and it can be set back."""
    x = torch.ones(4096, device="cuda")
    functional.dropout(x)
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = functional.dropout(x)
    start = generator.get_offset()
    graph.replay()
    first = out.clone()
    step = generator.get_offset() - start
    x.fill_(2.0)
    graph.replay()
    assert generator.get_offset() == start + 2 * step > start
    assert not torch.equal(out, 2 * first)
    generator.set_offset(start)
    graph.replay()
    assert torch.equal(out, 2 * first)
