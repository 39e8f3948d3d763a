"""mcore-shared-buffer-address-assert: something new stands between two graphed layers that share a buffer."""

# needs: transformer-engine, megatron-core==0.19.2
import torch
import torch.distributed as dist
import transformer_engine.pytorch as te
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.cuda_graphs import create_cudagraphs
from megatron.core.transformer.module import GraphableMegatronModule, MegatronModule
from torch import nn


class Block(GraphableMegatronModule):
    """A layer that Megatron-Core graphs by itself."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.linear = te.Linear(64, 64, bias=False)

    def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return hidden states and context, as a transformer layer does."""
        return self.linear(hidden_states), None


class Pair(MegatronModule):
    """Two graphed layers, and what stands between them."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.first, self.second = Block(config), Block(config)
        self.copies = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the second."""
        x, _context = self.first(x)
        if self.copies:
            x = x.clone()
        return self.second(x)[0]


def _model() -> nn.Module:
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)  # Megatron-Core itself changes the stream
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    config = TransformerConfig(
        num_layers=1, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local", cuda_graph_modules=[]
    )
    return DistributedDataParallel(config, DistributedDataParallelConfig(), Pair(config))


def _batch() -> torch.Tensor:
    return torch.randn(32, 64, device="cuda", requires_grad=True)


def fails() -> None:
    """From step 2 on the activations are copied on their way."""
    model = _model()
    for _ in range(2):
        model(_batch()).sum().backward()
        create_cudagraphs()
        model.module.copies = True


def works() -> None:
    """They are copied in the recorded step too."""
    model = _model()
    model.module.copies = True
    first, second = model.module.first.linear.weight, model.module.second.linear.weight
    for _ in range(3):
        x = _batch()
        y = model(x)
        torch.testing.assert_close(y, x @ first.T @ second.T, rtol=0.02, atol=0.02)
        y.sum().backward()
        create_cudagraphs()
