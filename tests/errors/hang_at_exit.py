"""hang-at-exit: the process group is destroyed while a graph still holds its communicator."""

# needs: gpus=2
import os
import threading

import torch
import torch.distributed as dist


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(1024, device=device)
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
    return graph, x


def fails() -> None:
    """After 20 seconds the call has not returned; it does once the graph is gone."""
    graph, _x = _record()
    closing = threading.Thread(target=dist.destroy_process_group, daemon=True)
    closing.start()
    closing.join(20)
    assert closing.is_alive()
    graph.reset()
    closing.join(30)


def works() -> None:
    """The graph first, the group after it."""
    graph, _x = _record()
    graph.reset()
    dist.destroy_process_group()
    assert not dist.is_initialized()
