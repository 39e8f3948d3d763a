"""timeout-while-a-rank-captures: the others wait in an eager collective until its timeout ends them."""

# needs: gpus=2
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def _start() -> torch.Tensor:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device, timeout=timedelta(seconds=10))
    x = torch.ones(1024, device=device)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    return x


def _record_slowly(x: torch.Tensor, seconds: float) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    print("recording the CUDA graph", flush=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x * 2
        time.sleep(seconds)  # stands for many shapes, or for a compiler
    return graph, out


def fails() -> None:
    """Rank 1 records for longer than the timeout of the collective in which rank 0 waits."""
    x = _start()
    if dist.get_rank() == 1:
        _record_slowly(x, seconds=90)
    dist.all_reduce(x)
    torch.cuda.synchronize()


def works() -> None:
    """All ranks record at the same place, and meet on the CPU with a long timeout of its own."""
    x = _start()
    meeting = dist.new_group(backend="gloo", timeout=timedelta(minutes=5))
    graph, out = _record_slowly(x, seconds=15 * dist.get_rank())
    dist.barrier(meeting)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        dist.all_reduce(out)
        torch.cuda.synchronize()
        assert out.eq(4 * value).all()
    graph.reset()
    dist.destroy_process_group()
