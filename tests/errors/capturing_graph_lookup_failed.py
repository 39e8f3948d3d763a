"""capturing-graph-lookup-failed: library code asks for the graph in capture while nothing is captured."""

# needs: torch>=2.13 (not in 2.11)
import torch


def fails() -> None:
    """The helper also runs in the warm-up, outside a capture."""
    torch.ones(8, device="cuda")
    torch.cuda.CUDAGraph.get_currently_capturing_graph()


def works() -> None:
    """Asked only while the current stream captures."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        if torch.cuda.is_current_stream_capturing():
            assert torch.cuda.CUDAGraph.get_currently_capturing_graph() is not None
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
