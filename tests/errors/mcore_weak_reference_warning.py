"""mcore-weak-reference-warning: graphs are made where Transformer Engine is not installed."""

# needs: transformer-engine, megatron-core==0.19.2
import sys

import torch
import torch.distributed as dist
from torch import nn


def _steps(tracker: dict[str, bool]) -> None:
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.cuda_graphs import create_cudagraphs
    from megatron.core.transformer.module import GraphableMegatronModule

    class Block(GraphableMegatronModule):
        def __init__(self, config: TransformerConfig) -> None:
            super().__init__(config)
            self.linear = nn.Linear(64, 64, bias=False, device="cuda")

        def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
            return self.linear(hidden_states), None

    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # Megatron-Core itself changes the stream
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, **tracker)
    config = TransformerConfig(
        num_layers=1, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_modules=[]
    )
    model = DistributedDataParallel(config, DistributedDataParallelConfig(), Block(config))
    for _ in range(3):
        x = torch.randn(32, 64, device="cuda", requires_grad=True)
        y, _context = model(x)
        y.sum().backward()
        create_cudagraphs()
        torch.testing.assert_close(y, x @ model.module.linear.weight.T, rtol=0.02, atol=0.02)


def fails() -> None:
    """`import transformer_engine` fails; Megatron-Core's own tracker can be captured."""
    sys.modules["transformer_engine"] = None  # type: ignore[assignment]  # as where it is not installed
    _steps({"use_cudagraphable_rng": True})


def works() -> None:
    """Installed, it lends the weak references, and nothing is said."""
    _steps({"te_rng_tracker": True})
