"""te-callable-was-reset: an evaluation runs after the graphs were freed."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te


def fails() -> None:
    """The module's `forward` is still the graphed one."""
    x = torch.randn(32, 64, device="cuda", requires_grad=True)
    layer = te.make_graphed_callables(te.Linear(64, 64), (x,))
    with torch.no_grad():
        layer(torch.randn(32, 64, device="cuda"))
        layer.reset()
        layer(torch.randn(32, 64, device="cuda"))


def works() -> None:
    """The eager `forward` is kept, and put back."""
    x = torch.randn(32, 64, device="cuda", requires_grad=True)
    layer = te.Linear(64, 64, bias=False)
    eager = layer.forward
    layer = te.make_graphed_callables(layer, (x,))
    layer(x).sum().backward()
    layer.reset()
    layer.forward = eager
    torch.testing.assert_close(layer(x), x @ layer.weight.T, rtol=0.02, atol=0.02)
