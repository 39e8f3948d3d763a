"""mcore-user-pre-forward-hook: a graphed layer has a pre-hook that is not Megatron's."""

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
    """A layer that Megatron-Core graphs by itself."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.linear = te.Linear(64, 64, bias=False)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return hidden states and context, as a transformer layer does."""
        return self.linear(hidden_states), None


def _model() -> nn.Module:
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # Megatron-Core itself changes the stream
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    config = TransformerConfig(
        num_layers=1, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_modules=[]
    )
    return DistributedDataParallel(config, DistributedDataParallelConfig(), Block(config))


def _batch() -> torch.Tensor:
    return torch.randn(32, 64, device="cuda", requires_grad=True)


def fails() -> None:
    """A logger looks at the inputs."""
    model = _model()
    model.module.register_forward_pre_hook(lambda _module, args: print(len(args)))
    for _ in range(2):
        model(_batch())[0].sum().backward()
        create_cudagraphs()


def works() -> None:
    """It looks from the eager parent."""
    model = _model()
    seen: list[int] = []
    model.register_forward_pre_hook(lambda _module, args: seen.append(len(args)))
    for _ in range(3):
        model.zero_grad_buffer()
        x = _batch()
        y, _context = model(x)
        y.sum().backward()
        create_cudagraphs()
        torch.testing.assert_close(model.module.linear.weight.main_grad, torch.ones_like(y).T @ x, rtol=0.02, atol=0.05)
    assert seen == [1, 1, 1]
