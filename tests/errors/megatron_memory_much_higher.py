"""megatron-memory-much-higher: layers are captured again while the first set of graphs is alive."""

# needs: transformer-engine
import gc
from collections.abc import Callable

import torch
import transformer_engine.pytorch as te
from torch import nn


def _graph(layers: tuple[nn.Module, ...]) -> tuple[Callable[..., torch.Tensor], ...]:
    samples = tuple((torch.randn(4096, 1024, device="cuda", requires_grad=True),) for _ in layers for _ in range(2))
    return te.make_graphed_callables(layers, samples, _order=[1, 1, -1, -1])


def _growth(*, freed: bool) -> float:
    """Return the memory that a second capture leaves reserved, as a part of what the first one did."""
    layers = tuple(te.Linear(1024, 1024) for _ in range(4))
    start = torch.cuda.memory_reserved()
    functions = _graph(layers)
    torch.cuda.empty_cache()
    first = torch.cuda.memory_reserved() - start
    kept = [functions]
    if freed:
        for function in functions:
            function.reset()  # type: ignore[attr-defined]
        kept.clear()
        del functions, function
        gc.collect()
        torch.cuda.empty_cache()
    kept.append(_graph(layers))
    torch.cuda.empty_cache()
    return (torch.cuda.memory_reserved() - start - first) / first


def fails() -> None:
    """A second helper, for another sequence length, and the old graphs keep their pools."""
    assert _growth(freed=False) > 0.8


def works() -> None:
    """The old graphs are reset first."""
    assert _growth(freed=True) < 0.3
