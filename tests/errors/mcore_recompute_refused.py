"""mcore-recompute-refused: whole layers are recomputed, and each layer is a graph."""

# needs: megatron-core==0.19.2
from typing import Any

from megatron.core.transformer import TransformerConfig


def _config(**recompute: Any) -> TransformerConfig:
    return TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", **recompute)


def fails() -> None:
    """Full recompute would run the captured forward again in the backward."""
    _config(recompute_granularity="full", recompute_method="uniform", recompute_num_layers=1)


def works() -> None:
    """Selective recompute lies inside the graph."""
    config = _config(recompute_granularity="selective", recompute_modules=["layernorm"])
    assert config.recompute_granularity == "selective"
