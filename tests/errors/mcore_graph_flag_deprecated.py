"""mcore-graph-flag-deprecated: the switch of old recipes still works, with a warning."""

# needs: megatron-core==0.19.2
import warnings

from megatron.core.transformer import TransformerConfig


def fails() -> None:
    """`enable_cuda_graph` says what `cuda_graph_impl="local"` says since 0.15."""
    old = TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, enable_cuda_graph=True, cuda_graph_modules=[])
    assert old.cuda_graph_impl == "local"


def works() -> None:
    """Only the new option is set."""
    warnings.filterwarnings("error", message=".*is deprecated")
    new = TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_modules=[])
    assert new.cuda_graph_impl == "local"
