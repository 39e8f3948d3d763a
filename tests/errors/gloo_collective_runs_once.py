"""gloo-collective-runs-once: a collective on a CPU tensor happens at capture time and in no replay."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist


def _start() -> tuple[torch.Tensor, torch.Tensor]:
    dist.init_process_group("cpu:gloo,cuda:nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    x = torch.ones(4, device=device)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    return x, torch.ones(1)


def fails() -> None:
    """The count of tokens is summed once, however often the step is replayed."""
    x, tokens = _start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        dist.all_reduce(tokens)
    assert tokens.item() == 2
    for _ in range(3):
        tokens.fill_(5)
        graph.replay()
        torch.cuda.synchronize()
        assert tokens.item() == 5
    graph.reset()
    dist.destroy_process_group()


def works() -> None:
    """It is summed beside each replay."""
    x, tokens = _start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    for count in (3, 5):
        tokens.fill_(count)
        x.fill_(count)
        graph.replay()
        dist.all_reduce(tokens)
        torch.cuda.synchronize()
        assert tokens.item() == 2 * count
        assert x.eq(2 * count).all()
    graph.reset()
    dist.destroy_process_group()
