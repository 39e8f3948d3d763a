"""mcore-cpu-offloading-refused: activations go to the CPU, and layers are graphed."""

# needs: megatron-core==0.19.2
from megatron.core.transformer import TransformerConfig


def fails() -> None:
    """Offloading of two layers stays on when graphs are switched on."""
    TransformerConfig(
        num_layers=4,
        hidden_size=64,
        num_attention_heads=4,
        cpu_offloading=True,
        cpu_offloading_num_layers=2,
        cuda_graph_impl="local",
    )


def works() -> None:
    """Recompute saves the memory instead."""
    config = TransformerConfig(
        num_layers=4,
        hidden_size=64,
        num_attention_heads=4,
        recompute_granularity="selective",
        recompute_modules=["layernorm"],
        cuda_graph_impl="local",
    )
    assert config.cuda_graph_impl == "local"
