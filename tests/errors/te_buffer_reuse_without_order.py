"""te-buffer-reuse-without-order: buffers are to be shared among forwards and backwards, and there is no backward."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te


def _sample() -> tuple[torch.Tensor]:
    return (torch.randn(32, 64, device="cuda", requires_grad=True),)


def fails() -> None:
    """The flag that a training script sets, for a layer that only infers."""
    te.make_graphed_callables((te.Linear(64, 64).eval(),), (_sample(),), _order=[1, -1], _reuse_graph_input_output_buffers=True)


def works() -> None:
    """In training, with the order in which the loop really runs."""
    layer = te.Linear(64, 64, bias=False)
    functions = te.make_graphed_callables(
        (layer,), (_sample(), _sample()), _order=[1, -1, 1, -1], _reuse_graph_input_output_buffers=True
    )
    for function in functions:
        (x,) = _sample()
        y = function(x)
        torch.testing.assert_close(y, x @ layer.weight.T, rtol=0.02, atol=0.02)
        y.sum().backward()
