"""mcore-activation-offload-rules: modules are offloaded that a `local` graph captures."""

# needs: megatron-core==0.19.2
from typing import Any

from megatron.core.transformer import TransformerConfig


def _config(**graph: Any) -> TransformerConfig:
    return TransformerConfig(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        fine_grained_activation_offloading=True,
        offload_modules=["core_attn"],
        **graph,
    )


def fails() -> None:
    """The attention's activations would leave the captured region."""
    _config(cuda_graph_impl="local")


def works() -> None:
    """Transformer Engine's graphs know the offloading stream."""
    config = _config(cuda_graph_impl="transformer_engine", cuda_graph_modules=["mlp"])
    assert config.fine_grained_activation_offloading
