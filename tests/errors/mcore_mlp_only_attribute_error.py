"""mcore-mlp-only-attribute-error: only the MLP of a layer is captured, and the layer does not know yet whether it has one."""

# needs: transformer-engine, megatron-core==0.19.2
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_submodules
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayer


def _layer(modules: list[str]) -> TransformerLayer:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    config = TransformerConfig(
        num_layers=2, hidden_size=256, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_modules=modules
    )
    return TransformerLayer(config, get_gpt_layer_with_transformer_engine_submodules())


def fails() -> None:
    """`mlp` alone."""
    _layer(["mlp"])


def works() -> None:
    """With attention the question does not come up."""
    assert hasattr(_layer(["attn", "mlp"]), "cudagraph_manager")
