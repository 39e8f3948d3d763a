"""te-attention-rng-tracker: attention draws its dropout from a tracker that is not Transformer Engine's."""

# needs: transformer-engine
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformer_engine.pytorch as te
from torch import nn


class Tracker:
    """A home-made tracker: one generator for each region."""

    def __init__(self) -> None:
        self.states: dict[str, torch.Generator] = {}

    def get_states(self) -> dict[str, torch.Generator]:
        """Return the generators by name."""
        return self.states

    @contextmanager
    def fork(self, _name: str = "model-parallel-rng") -> Iterator[None]:
        """Draw from the default generator."""
        yield


def _attention(tracker: Callable[[], Any]) -> nn.Module:
    return te.DotProductAttention(4, 64, attention_dropout=0.1, attn_mask_type="causal", get_rng_state_tracker=tracker)


def _sample() -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(128, 2, 4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))


def fails() -> None:
    """It works until the layer is captured."""
    te.make_graphed_callables(_attention(Tracker), _sample())


def works() -> None:
    """Its own tracker, which the capture registers with the graphs."""
    tracker = te.distributed.CudaRNGStatesTracker()
    tracker.add("model-parallel-rng", 1234)
    attention = te.make_graphed_callables(_attention(lambda: tracker), _sample())
    inputs = _sample()
    first, second = attention(*inputs).clone(), attention(*inputs).clone()
    assert not torch.equal(first, second)
