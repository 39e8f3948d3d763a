"""mcore-stale-stream-warning: a torch that cannot forgive streams of old autograd nodes, and the capture says so."""

# needs: transformer-engine, megatron-core==0.19.2
import logging
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.full_cuda_graph import FullCudaGraphWrapper, get_shared_capture_stream
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
    """The capture passes all the same."""
    step, model = _wrapped(), nn.Linear(64, 64).cuda()
    for value in range(4):
        batches = iter([{"x": torch.full((8, 64), float(value))}])
        (out,) = step(model=model, data_iterator=batches, num_microbatches=1, seq_length=64, forward_only=True)
        torch.testing.assert_close(out, model(torch.full((8, 64), float(value), device="cuda")))


def works() -> None:
    """The model is built on the stream of the capture, so the line may be left out of the log."""
    logging.getLogger("megatron.core.full_cuda_graph").setLevel(logging.ERROR)
    step = _wrapped()
    with torch.cuda.stream(get_shared_capture_stream()):
        model = nn.Linear(64, 64).cuda()
    torch.cuda.synchronize()
    for value in range(4):
        batches = iter([{"x": torch.full((8, 64), float(value))}])
        (out,) = step(model=model, data_iterator=batches, num_microbatches=1, seq_length=64, forward_only=True)
        torch.testing.assert_close(out, model(torch.full((8, 64), float(value), device="cuda")))
