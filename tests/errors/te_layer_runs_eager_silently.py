"""te-layer-runs-eager-silently: a layer that was graphed for training is called in eval mode."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch as te
from torch import nn
from torch.profiler import ProfilerActivity, profile


def _graph_launches(layer: nn.Module) -> int:
    x = torch.randn(32, 64, device="cuda", requires_grad=True)
    layer(x)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        layer(x)
        torch.cuda.synchronize()
    return sum(event.name == "cudaGraphLaunch" for event in recorded.events())


def fails() -> None:
    """Validation launches kernel by kernel, without a word."""
    layer = te.make_graphed_callables(te.Linear(64, 64), (torch.randn(32, 64, device="cuda", requires_grad=True),))
    assert _graph_launches(layer.eval()) == 0


def works() -> None:
    """In the captured mode one call is one launch."""
    layer = te.make_graphed_callables(te.Linear(64, 64), (torch.randn(32, 64, device="cuda", requires_grad=True),))
    assert _graph_launches(layer) == 1
