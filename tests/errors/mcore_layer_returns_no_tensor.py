"""mcore-layer-returns-no-tensor: a graphed layer returns nothing that autograd could follow."""

# needs: transformer-engine, megatron-core==0.19.2
import torch
import torch.distributed as dist
import transformer_engine.pytorch as te
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.cuda_graphs import create_cudagraphs
from megatron.core.transformer.module import GraphableMegatronModule
from torch import nn


class Block(GraphableMegatronModule):
    """A layer that keeps its result, or returns it."""

    def __init__(self, config: TransformerConfig, *, keeps: bool) -> None:
        super().__init__(config)
        self.linear = te.Linear(64, 64, bias=False)
        self.keeps = keeps
        self.result: torch.Tensor | None = None

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None] | None:
        """Return hidden states and context, or nothing."""
        result = self.linear(hidden_states)
        if not self.keeps:
            return result, None
        self.result = result
        return None


def _model(*, keeps: bool) -> nn.Module:
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # Megatron-Core itself changes the stream
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    config = TransformerConfig(
        num_layers=1, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_modules=[]
    )
    return DistributedDataParallel(config, DistributedDataParallelConfig(), Block(config, keeps=keeps))


def _batch() -> torch.Tensor:
    return torch.randn(32, 64, device="cuda", requires_grad=True)


def fails() -> None:
    """The layer puts its result into an attribute."""
    model = _model(keeps=True)
    model(_batch())
    create_cudagraphs()


def works() -> None:
    """It returns the tensor."""
    model = _model(keeps=False)
    for _ in range(3):
        model.zero_grad_buffer()
        x = _batch()
        y, _context = model(x)
        y.sum().backward()
        create_cudagraphs()
        torch.testing.assert_close(model.module.linear.weight.main_grad, torch.ones_like(y).T @ x, rtol=0.02, atol=0.05)
