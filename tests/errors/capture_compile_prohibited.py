"""capture-compile-prohibited: a compiled function is called for the first time inside the region."""

# needs: torch>=2.14
import torch


def fails() -> None:
    """No call before the capture."""
    x = torch.ones(1024, device="cuda")
    step = torch.compile(lambda t: torch.sin(t) * 2)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        step(x)


def works() -> None:
    """Two calls with the captured shape come first."""
    x = torch.ones(1024, device="cuda")
    step = torch.compile(lambda t: torch.sin(t) * 2)
    for _ in range(2):
        step(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = step(x)
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.allclose(out, torch.sin(x) * 2)
