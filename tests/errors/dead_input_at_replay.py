"""dead-input-at-replay: a tensor that the graph reads was freed, and the liveness check says so."""

# needs: torch>=2.13 (not in 2.11)
import torch


def _build(x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    """A graph, its output and the mask that it reads."""
    mask = torch.full_like(x, 2.0)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, check_input_liveness=True):
        y = x * mask
    return g, y, mask


def fails() -> None:
    """The mask dies with the function that made it."""
    x = torch.ones(8, device="cuda")
    g, _ = _build(x)[:2]
    g.replay()


def works() -> None:
    """The mask lives as long as the graph."""
    x = torch.ones(8, device="cuda")
    g, y, mask = _build(x)
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.equal(x * mask)
