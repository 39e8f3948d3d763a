"""te-pipeline-order-counts: a schedule of two microbatches, and samples for one."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te

ORDER = [1, 1, -1, -1]


def _sample() -> tuple[torch.Tensor]:
    return (torch.randn(32, 64, device="cuda", requires_grad=True),)


def _layers() -> tuple[torch.nn.Module, torch.nn.Module]:
    return te.Linear(64, 64, bias=False), te.Linear(64, 64, bias=False)


def fails() -> None:
    """Each layer needs a sample for each microbatch."""
    te.make_graphed_callables(_layers(), (_sample(), _sample()), _order=ORDER)


def works() -> None:
    """Two layers and two microbatches: four samples and four functions, sorted by microbatch."""
    first, second = layers = _layers()
    functions = te.make_graphed_callables(layers, tuple(_sample() for _ in range(4)), _order=ORDER)
    for _ in range(2):
        inputs = [_sample()[0] for _ in range(2)]
        outputs = [functions[1](functions[0](inputs[0])), functions[3](functions[2](inputs[1]))]
        for x, y in zip(inputs, outputs, strict=True):
            torch.testing.assert_close(y, x @ first.weight.T @ second.weight.T, rtol=0.02, atol=0.02)
            y.sum().backward()
            torch.testing.assert_close(x.grad, torch.ones_like(y) @ second.weight @ first.weight, rtol=0.02, atol=0.02)
