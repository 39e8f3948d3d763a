"""collective-polled-in-capture: the handle of a recorded collective is asked whether it is done."""

# needs: gpus=2
import os
import time

import torch
import torch.distributed as dist


def _start() -> torch.Tensor:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(1024, device=device)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    return x


def fails() -> None:
    """A polling loop, as it works in eager code."""
    x = _start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        handle = dist.all_reduce(total, async_op=True)
        while not handle.is_completed():
            time.sleep(0.001)
        handle.wait()


def works() -> None:
    """A wait, which becomes an edge of the graph."""
    x = _start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        dist.all_reduce(total, async_op=True).wait()
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert total.eq(4 * value).all()
    graph.reset()
    dist.destroy_process_group()
