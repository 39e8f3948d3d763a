"""cond-in-plain-capture: `torch.cond` in `torch.cuda.graph` reads its predicate on the host."""

import torch


def _double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def _less(t: torch.Tensor) -> torch.Tensor:
    return t - 1


def fails() -> None:
    """Warmed up, and still the branch is chosen by Python, which needs the value."""
    x, flag = torch.ones(8, device="cuda"), torch.tensor(True, device="cuda")
    torch.cond(flag, _double, _less, (x,))
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.cond(flag, _double, _less, (x,))


def works() -> None:
    """Both branches run, the GPU selects."""
    x, flag = torch.ones(8, device="cuda"), torch.tensor(True, device="cuda")
    torch.where(flag, _double(x), _less(x))
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = torch.where(flag, _double(x), _less(x))
    for value, taken in ((3.0, True), (5.0, False)):
        x.fill_(value)
        flag.fill_(taken)
        g.replay()
        assert y.eq(value * 2 if taken else value - 1).all()
