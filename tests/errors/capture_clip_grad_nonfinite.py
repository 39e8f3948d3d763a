"""capture-clip-grad-nonfinite: gradient clipping looks at the norm on the CPU."""

import torch


def fails() -> None:
    """error_if_nonfinite=True is an if on a CUDA tensor."""
    weight = torch.nn.Parameter(torch.ones(16, device="cuda"))
    weight.grad = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


def works() -> None:
    """The norm is returned, and tested after the replay."""
    weight = torch.nn.Parameter(torch.ones(16, device="cuda"))
    weight.grad = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
    for value in (2.0, 5.0):
        weight.grad.fill_(value)
        g.replay()
        assert bool(torch.isfinite(norm))
        assert abs(norm.item() - 4 * value) < 1e-3
        assert abs(weight.grad.norm().item() - 1) < 1e-3
