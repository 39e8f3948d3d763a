"""bridge-model-refuses-graphs: a model whose mixture of experts goes its own way."""

# needs: transformer-engine, megatron-core==0.19.2, megatron-bridge==0.6.2
from typing import Any

from megatron.bridge.models.gemma.gemma4_provider import Gemma4ModelProvider


def _provider(**settings: Any) -> Gemma4ModelProvider:
    provider = Gemma4ModelProvider(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        num_query_groups=4,
        kv_channels=16,
        num_moe_experts=4,
        moe_router_topk=2,
        seq_length=32,
        vocab_size=128,
        **settings,
    )
    provider.finalize()
    return provider


def fails() -> None:
    """The graph settings of another recipe."""
    recipe = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": ["attn"]}
    _provider(**recipe)


def works() -> None:
    """This model runs eager."""
    assert _provider().cuda_graph_impl == "none"
