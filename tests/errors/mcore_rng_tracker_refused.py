"""mcore-rng-tracker-refused: the process was seeded with the plain tracker."""

# needs: transformer-engine, megatron-core==0.19.2
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.cuda_graphs import CudaGraphManager


def _manager(tracker: dict[str, bool]) -> CudaGraphManager:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, **tracker)
    return CudaGraphManager(TransformerConfig(num_layers=1, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local"))


def fails() -> None:
    """The call of an older script."""
    _manager({})


def works() -> None:
    """Transformer Engine's tracker, before anything is built."""
    assert _manager({"te_rng_tracker": True}).cudagraph_runners == []
