"""mcore-dropout-in-recompute: an MLP with the default dropout behind it is recomputed inside a graph."""

# needs: megatron-core==0.19.2
from typing import Any

from megatron.core.transformer import TransformerConfig


def _config(**dropout: Any) -> TransformerConfig:
    return TransformerConfig(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        cuda_graph_impl="transformer_engine",
        cuda_graph_modules=["mlp"],
        recompute_granularity="selective",
        recompute_modules=["mlp"],
        **dropout,
    )


def fails() -> None:
    """Nobody mentioned dropout: it is 0.1."""
    _config()


def works() -> None:
    """Without dropout there is no mask to draw again."""
    assert _config(hidden_dropout=0.0).hidden_dropout == 0.0
