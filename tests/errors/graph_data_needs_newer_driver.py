"""graph-data-needs-newer-driver: node ids cannot be read with a driver below 13.1."""

# needs: torch>=2.13 (not in 2.11)
import tempfile
from pathlib import Path

import torch


def fails() -> None:
    """Raises where the driver (or cuda-compat) or cuda-bindings is older than 13.1."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        x * 2
    g.instantiate()
    g.get_graph_data()


def works() -> None:
    """The dot dump has no such floor and names the same nodes."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        y = x * 2
    path = Path(tempfile.mkdtemp()) / "graph.dot"
    g.debug_dump(str(path))
    assert "KERNEL" in path.read_text().upper()
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
