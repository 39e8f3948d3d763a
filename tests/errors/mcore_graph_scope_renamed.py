"""mcore-graph-scope-renamed: a release that knows only the old name of the option."""

# needs: megatron-core==0.16.1
from megatron.core.transformer import TransformerConfig


def fails() -> None:
    """A recipe for MCore 0.18 runs on 0.16."""
    recipe = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": ["attn"]}
    TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, **recipe)


def works() -> None:
    """Under the name that MCore had until 0.17."""
    recipe = {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": ["attn"]}
    config = TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, **recipe)
    assert [scope.name for scope in config.cuda_graph_scope] == ["attn"]
