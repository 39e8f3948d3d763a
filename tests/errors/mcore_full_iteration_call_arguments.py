"""mcore-full-iteration-call-arguments: the wrapped step is called as the bare one."""

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
    """The iterator comes first, by position."""
    step = _wrapped()
    step(iter([{"x": torch.ones(8, 64)}]), nn.Linear(64, 64).cuda(), 1)


def works() -> None:
    """Everything by name; the third call captures."""
    step, model = _wrapped(), nn.Linear(64, 64).cuda()
    for value in range(4):
        batches = iter([{"x": torch.full((8, 64), float(value))}])
        (out,) = step(model=model, data_iterator=batches, num_microbatches=1, seq_length=64, forward_only=True)
        torch.testing.assert_close(out, model(torch.full((8, 64), float(value), device="cuda")))
