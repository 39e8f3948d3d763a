"""ranks-replay-unequally: one rank replays a recorded all-reduce, the other one skips this step."""

# needs: gpus=2
import os
import time

import torch
import torch.distributed as dist


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(1024, device=device)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    dist.barrier()
    torch.cuda.synchronize()
    return graph, x


def fails() -> None:
    """Rank 0 is not done after five seconds, and would never be: no timeout watches a replay."""
    graph, _x = _record()
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        over = torch.cuda.Event()
        graph.replay()
        over.record()
        time.sleep(5)
        assert not over.query()
        store.set("seen", "1")
    else:
        store.wait(["seen"])  # the empty shard: nothing to do
        graph.replay()  # so that this program ends
    torch.cuda.synchronize()
    graph.reset()
    dist.destroy_process_group()


def works() -> None:
    """Both replay as often, one of them with a batch of zeros."""
    graph, x = _record()
    for value in (1.0, 5.0):
        x.fill_(value if dist.get_rank() == 0 else 0.0)
        graph.replay()
        torch.cuda.synchronize()
        assert x.eq(value).all()
    graph.reset()
    dist.destroy_process_group()
