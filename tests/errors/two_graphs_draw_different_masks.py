"""two-graphs-draw-different-masks: forward and recomputation draw the dropout mask in two graphs."""

import torch
from torch.nn import functional


def _capture(x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    functional.dropout(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = functional.dropout(x)
    return graph, out


def fails() -> None:
    """Each replay takes the generator's next numbers."""
    x = torch.ones(4096, device="cuda")
    forward, kept = _capture(x)
    recompute, again = _capture(x)
    forward.replay()
    recompute.replay()
    assert not torch.equal(kept, again)


def works() -> None:
    """The generator is set back before the second replay."""
    x = torch.ones(4096, device="cuda")
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    forward, kept = _capture(x)
    recompute, again = _capture(x)
    for value in (1.0, 2.0):
        x.fill_(value)
        start = generator.get_offset()
        forward.replay()
        generator.set_offset(start)
        recompute.replay()
        assert torch.equal(kept, again)
