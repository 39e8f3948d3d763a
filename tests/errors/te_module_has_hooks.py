"""te-module-has-hooks: a layer with a forward hook is graphed by Transformer Engine."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te


def fails() -> None:
    """A logging hook is already there."""
    layer = te.Linear(64, 64)
    layer.register_forward_hook(lambda _module, _args, out: print(out.shape))
    te.make_graphed_callables(layer, (torch.randn(32, 64, device="cuda", requires_grad=True),))


def works() -> None:
    """The hook is registered afterwards and runs around each replay."""
    layer = te.Linear(64, 64, bias=False)
    graphed = te.make_graphed_callables(layer, (torch.randn(32, 64, device="cuda", requires_grad=True),))
    seen: list[torch.Tensor] = []
    graphed.register_forward_hook(lambda _module, _args, out: seen.append(out.detach().clone()))
    for number in range(1, 3):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        graphed(x)
        assert len(seen) == number
        torch.testing.assert_close(seen[-1], x @ layer.weight.T, rtol=0.02, atol=0.02)
