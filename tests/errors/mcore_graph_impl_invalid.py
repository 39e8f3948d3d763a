"""mcore-graph-impl-invalid: an implementation that this release does not know."""

# needs: megatron-core==0.16.1
from megatron.core.transformer import TransformerConfig


def fails() -> None:
    """`full_iteration` became an implementation in 0.18."""
    TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, cuda_graph_impl="full_iteration")


def works() -> None:
    """Before, it is a scope of `local`."""
    config = TransformerConfig(
        num_layers=2, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_scope="full_iteration"
    )
    assert [scope.name for scope in config.cuda_graph_scope] == ["full_iteration"]
