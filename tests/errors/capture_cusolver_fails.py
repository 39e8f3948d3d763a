"""capture-cusolver-fails: an eigenvalue solver is captured."""

import torch


def fails() -> None:
    """It fails even though it ran before."""
    a = torch.randn(64, 64, device="cuda")
    spd = a @ a.T
    torch.linalg.eigh(spd)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.linalg.eigh(spd)


def works() -> None:
    """The solver stays outside, between the replay and the next one."""
    a = torch.randn(64, 64, device="cuda")
    a @ a.T
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        spd = a @ a.T
    for seed in (1, 2):
        torch.manual_seed(seed)
        a.copy_(torch.randn(64, 64, device="cuda"))
        g.replay()
        values, vectors = torch.linalg.eigh(spd)
        again = vectors @ torch.diag(values) @ vectors.T
        assert torch.allclose(again, a @ a.T, rtol=1e-2, atol=1e-1)
