"""mcore-inference-scope-invalid: graphs for inference, where the implementation has none."""

# needs: megatron-core==0.19.2
from megatron.core.transformer import TransformerConfig


def fails() -> None:
    """The scope was taken over from a `local` setup."""
    TransformerConfig(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        cuda_graph_impl="transformer_engine",
        inference_cuda_graph_scope="layer",
    )


def works() -> None:
    """Unset, it follows from the implementation."""
    config = TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, cuda_graph_impl="transformer_engine")
    assert config.inference_cuda_graph_scope.name == "none"
