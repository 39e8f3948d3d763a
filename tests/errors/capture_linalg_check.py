"""capture-linalg-check: a linear algebra function reads its error code back."""

import torch


def fails() -> None:
    """torch.linalg.inv checks on the CPU whether the matrix was singular."""
    a = torch.eye(32, device="cuda") * 2
    torch.linalg.inv(a)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.linalg.inv(a)


def works() -> None:
    """inv_ex leaves the code on the device; it is read after the replay."""
    a = torch.eye(32, device="cuda") * 2
    torch.linalg.inv_ex(a)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        inverse, info = torch.linalg.inv_ex(a)
    for value in (2.0, 4.0):
        a.copy_(torch.eye(32, device="cuda") * value)
        g.replay()
        torch.cuda.synchronize()
        assert info.item() == 0
        assert torch.allclose(inverse, torch.eye(32, device="cuda") / value)
