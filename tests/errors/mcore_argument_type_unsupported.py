"""mcore-argument-type-unsupported: a dict is handed to a graphed layer."""

# needs: transformer-engine, megatron-core==0.19.2
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.cuda_graphs import create_cudagraphs
from megatron.core.transformer.module import GraphableMegatronModule
from torch import nn


class Block(GraphableMegatronModule):
    """A layer that takes its options in one argument."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.linear = nn.Linear(64, 64, bias=False, device="cuda")

    def forward(self, hidden_states: torch.Tensor, options: Any) -> tuple[torch.Tensor, None]:
        """Return hidden states and context, as a transformer layer does."""
        scale = options["scale"] if isinstance(options, dict) else options.scale
        return self.linear(hidden_states) * scale, None


@dataclass
class Options:
    """The options as a dataclass."""

    scale: torch.Tensor


def _model() -> nn.Module:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    config = TransformerConfig(num_layers=1, hidden_size=64, num_attention_heads=4, cuda_graph_impl="local")
    return DistributedDataParallel(config, DistributedDataParallelConfig(), Block(config))


def _batch() -> torch.Tensor:
    return torch.randn(32, 64, device="cuda", requires_grad=True)


def fails() -> None:
    """The layer runs once, and its arguments cannot be recorded."""
    _model()(_batch(), options={"scale": torch.ones(64, device="cuda")})


def works() -> None:
    """The fields of a dataclass are found."""
    model = _model()
    for factor in range(3):
        x = _batch()
        y, _context = model(x, options=Options(torch.full((64,), float(factor), device="cuda")))
        y.sum().backward()
        create_cudagraphs()
        torch.testing.assert_close(y, x @ model.module.linear.weight.T * factor, rtol=0.02, atol=0.02)
