"""mcore-moe-module-rules: the list of modules does not fit a mixture of experts."""

# needs: megatron-core==0.19.2
from megatron.core.transformer import TransformerConfig


def _config(modules: list[str]) -> TransformerConfig:
    return TransformerConfig(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        num_moe_experts=4,
        cuda_graph_impl="transformer_engine",
        cuda_graph_modules=modules,
    )


def fails() -> None:
    """Dropless experts read token counts on the host."""
    _config(["attn", "moe"])


def works() -> None:
    """The router is captured, the experts stay eager."""
    config = _config(["attn", "moe_router"])
    assert [module.name for module in config.cuda_graph_modules] == ["attn", "moe_router"]
