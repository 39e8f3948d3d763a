"""mcore-full-iteration-in-modules: a whole-iteration graph is asked for as one module among others."""

# needs: megatron-core==0.19.2
from megatron.core.transformer import TransformerConfig


def fails() -> None:
    """The recipe's list of modules stays when the implementation becomes `full_iteration`."""
    TransformerConfig(
        num_layers=2, hidden_size=64, num_attention_heads=4, cuda_graph_impl="full_iteration", cuda_graph_modules=["attn"]
    )


def works() -> None:
    """The implementation alone says it."""
    config = TransformerConfig(
        num_layers=2, hidden_size=64, num_attention_heads=4, cuda_graph_impl="full_iteration", cuda_graph_modules=[]
    )
    assert config.cuda_graph_impl == "full_iteration"
