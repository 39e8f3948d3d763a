"""mcore-expert-overlap-modules: the overlap of expert communication cuts a layer that is captured as a whole."""

# needs: megatron-core==0.19.2
from megatron.core.transformer import TransformerConfig


def _config(modules: list[str]) -> TransformerConfig:
    return TransformerConfig(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        bf16=True,
        num_moe_experts=4,
        moe_layer_freq=[0, 1],
        expert_model_parallel_size=2,
        moe_token_dispatcher_type="alltoall",
        overlap_moe_expert_parallel_comm=True,
        cuda_graph_impl="transformer_engine",
        cuda_graph_modules=modules,
    )


def fails() -> None:
    """`mlp` captures the dense layers' part that the schedule wants to interleave."""
    _config(["attn", "mlp"])


def works() -> None:
    """Attention alone is captured."""
    assert [module.name for module in _config(["attn"]).cuda_graph_modules] == ["attn"]
