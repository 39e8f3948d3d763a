"""te-sample-args-count: samples for each layer and microbatch, but no `_order`."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te


def _sample() -> tuple[torch.Tensor]:
    return (torch.randn(32, 64, device="cuda", requires_grad=True),)


def _layers() -> tuple[torch.nn.Module, torch.nn.Module]:
    return te.Linear(64, 64, bias=False), te.Linear(64, 64, bias=False)


def fails() -> None:
    """Two layers, and samples for four microbatches of each."""
    te.make_graphed_callables(_layers(), tuple(_sample() for _ in range(8)))


def works() -> None:
    """One tuple for each layer serves all microbatches, one after the other."""
    first, second = te.make_graphed_callables(_layers(), (_sample(), _sample()))
    for _ in range(4):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        y = second(first(x))
        torch.testing.assert_close(y, x @ first.weight.T @ second.weight.T, rtol=0.02, atol=0.02)
        y.sum().backward()
