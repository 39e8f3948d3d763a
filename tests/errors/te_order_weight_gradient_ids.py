"""te-order-weight-gradient-ids: the pass of the weight gradients stands in a schedule that does not cut layers into chunks."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te


def fails() -> None:
    """A float in `_order`, and no `_num_layers_per_chunk`."""
    layer = te.Linear(64, 64, bias=False, delay_wgrad_compute=True)
    x = torch.randn(32, 64, device="cuda", requires_grad=True)
    te.make_graphed_callables((layer,), ((x,),), _order=[1, -1, -1.5])


def works() -> None:
    """Each layer is a chunk of its own, and its weight gradient is replayed after its backward."""
    layer = te.Linear(64, 64, bias=False, delay_wgrad_compute=True)
    sample = torch.randn(32, 64, device="cuda", requires_grad=True)
    (graphed,) = te.make_graphed_callables((layer,), ((sample,),), _order=[1, -1, -1.5], _num_layers_per_chunk=[1])
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        y = graphed(x)
        y.sum().backward()
        graphed.backward_dw()
        torch.testing.assert_close(layer.weight.grad, torch.ones_like(y).T @ x, rtol=0.02, atol=0.05)
