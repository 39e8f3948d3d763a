"""mcore-main-grad-missing: the captured backward adds into `main_grad`, and nothing made it."""

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


class Block(GraphableMegatronModule):
    """A layer that Megatron-Core graphs by itself."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.linear = te.Linear(64, 64, bias=False)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return hidden states and context, as a transformer layer does."""
        return self.linear(hidden_states), None


def _config() -> TransformerConfig:
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # Megatron-Core itself changes the stream
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    return TransformerConfig(
        num_layers=1, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_modules=[]
    )


def _batch() -> torch.Tensor:
    return torch.randn(32, 64, device="cuda", requires_grad=True)


def fails() -> None:
    """A bare model, as in a test on one GPU."""
    model = Block(_config())
    model(_batch())[0].sum().backward()
    create_cudagraphs()


def works() -> None:
    """Megatron's own DDP around it."""
    config = _config()
    model = DistributedDataParallel(config, DistributedDataParallelConfig(), Block(config))
    for _ in range(3):
        model.zero_grad_buffer()
        x = _batch()
        y, _context = model(x)
        y.sum().backward()
        create_cudagraphs()
        torch.testing.assert_close(model.module.linear.weight.main_grad, torch.ones_like(y).T @ x, rtol=0.02, atol=0.05)
