"""nccl-first-collective-in-capture: the communicator would have to be created while the stream captures."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist


def _start() -> torch.Tensor:
    dist.init_process_group("nccl")
    return torch.ones(1024, device=f"cuda:{os.environ['LOCAL_RANK']}")


def fails() -> None:
    """No collective has run yet: NCCL connects the ranks inside the capture."""
    x = _start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)


def works() -> None:
    """The same collective ran once before."""
    x = _start()
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert x.eq(2 * value).all()
    graph.reset()
    dist.destroy_process_group()
