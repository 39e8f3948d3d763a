"""distributed-barrier-in-capture: a barrier waits on the host for work that is only recorded."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist


def _start() -> torch.Tensor:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(1024, device=device)
    dist.all_reduce(x.clone())
    dist.barrier()
    torch.cuda.synchronize()
    return x


def fails() -> None:
    """It stands between two recorded parts."""
    x = _start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        part = x * 2
        dist.barrier()
        dist.all_reduce(part)


def works() -> None:
    """It stands before the capture; inside, a one-element all-reduce orders the GPUs."""
    x = _start()
    flag = torch.ones(1, device=x.device)
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        part = x * 2
        dist.all_reduce(flag)
        dist.all_reduce(part)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert part.eq(4 * value).all()
    graph.reset()
    dist.destroy_process_group()
