"""mcore-static-loader-batch-format: a batch holds a tuple, and the second one cannot be copied over the first."""

# needs: transformer-engine, megatron-core==0.19.2
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.full_cuda_graph import FullCudaGraphWrapper
from megatron.core.tensor_parallel.random import initialize_rng_tracker
from torch import nn


def _wrapped() -> FullCudaGraphWrapper:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    initialize_rng_tracker(use_te_rng_tracker=True)
    return FullCudaGraphWrapper(_forward, cuda_graph_warmup_steps=2)


def _forward(
    *, data_iterator: list[Iterator[Any]], model: nn.Module, num_microbatches: int, **_options: Any
) -> list[torch.Tensor]:
    with torch.no_grad():
        return [model(next(data_iterator[0])["x"]) for _ in range(num_microbatches)]


def fails() -> None:
    """The collate function returns views as a tuple."""
    step, model = _wrapped(), nn.Linear(64, 64).cuda()
    for _ in range(2):
        batches = iter([{"x": torch.ones(8, 64), "views": (torch.ones(8), torch.ones(8))}])
        step(model=model, data_iterator=batches, num_microbatches=1, seq_length=64, forward_only=True)


def works() -> None:
    """As a list."""
    step, model = _wrapped(), nn.Linear(64, 64).cuda()
    for value in range(4):
        batches = iter([{"x": torch.full((8, 64), float(value)), "views": [torch.ones(8), torch.ones(8)]}])
        (out,) = step(model=model, data_iterator=batches, num_microbatches=1, seq_length=64, forward_only=True)
        torch.testing.assert_close(out, model(torch.full((8, 64), float(value), device="cuda")))
