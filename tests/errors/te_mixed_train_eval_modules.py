"""te-mixed-train-eval-modules: one frozen layer of the tuple is in eval mode."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te


def _layers() -> tuple[torch.nn.Module, torch.nn.Module]:
    return te.Linear(64, 64, bias=False), te.Linear(64, 64, bias=False)


def _samples() -> tuple[tuple[torch.Tensor], tuple[torch.Tensor]]:
    return (torch.randn(32, 64, device="cuda", requires_grad=True),), (torch.randn(32, 64, device="cuda", requires_grad=True),)


def fails() -> None:
    """Freezing by `eval()`."""
    frozen, trained = _layers()
    te.make_graphed_callables((frozen.eval(), trained), _samples())


def works() -> None:
    """Freezing by `requires_grad_`; both are in training mode."""
    frozen, trained = te.make_graphed_callables((_layers()[0].requires_grad_(False), _layers()[1]), _samples())
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        y = trained(frozen(x))
        want = x @ frozen.weight.T @ trained.weight.T
        torch.testing.assert_close(y, want, rtol=0.02, atol=0.02)
        y.sum().backward()
    assert frozen.weight.grad is None
    assert trained.weight.grad is not None
