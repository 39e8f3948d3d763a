"""debug-dump-not-enabled: the graph is dumped although neither debug mode nor keep_graph is on."""

import tempfile
from pathlib import Path

import torch


def fails() -> None:
    """Up to torch 2.13 this warns and writes no file."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        x * 2
    path = Path(tempfile.mkdtemp()) / "graph.dot"
    g.debug_dump(str(path))
    assert not path.exists()


def works() -> None:
    """The template is kept, and debug mode was on before the capture."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph(keep_graph=True)
    g.enable_debug_mode()
    with torch.cuda.graph(g):
        y = x * 2
    path = Path(tempfile.mkdtemp()) / "graph.dot"
    g.debug_dump(str(path))
    assert "KERNEL" in path.read_text().upper()
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
