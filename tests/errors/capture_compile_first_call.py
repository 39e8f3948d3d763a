"""capture-compile-first-call: up to torch 2.13 the compiler runs inside the region until something breaks."""

import torch


def fails() -> None:
    """No call before the capture."""
    x = torch.ones(64, 1024, device="cuda")
    step = torch.compile(lambda t: torch.softmax(torch.sin(t), dim=-1) * 2)
    g = torch.cuda.CUDAGraph()
    refused = False
    try:
        with torch.cuda.graph(g):
            step(x)
    except Exception:  # noqa: BLE001  the compiler wraps what it hits in errors of its own
        refused = True
    assert refused


def works() -> None:
    """Two calls with the captured shape come first."""
    x = torch.ones(64, 1024, device="cuda")
    step = torch.compile(lambda t: torch.softmax(torch.sin(t), dim=-1) * 2)
    for _ in range(2):
        step(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = step(x)
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.allclose(out, torch.softmax(torch.sin(x), dim=-1) * 2, atol=1e-5)
