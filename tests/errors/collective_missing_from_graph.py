"""collective-missing-from-graph: the communication stream was not forked, so its all-reduce ran once and was not recorded."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist


def _start() -> tuple[torch.Tensor, torch.Tensor]:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x, total = torch.ones(1024, device=device), torch.zeros(1024, device=device)
    dist.all_reduce(total)
    torch.cuda.synchronize()
    return x, total


def _record(fork: bool) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    x, total = _start()
    communication = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total.copy_(x)
        if fork:
            communication.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(communication):
            dist.all_reduce(total)
        if fork:
            torch.cuda.current_stream().wait_stream(communication)
    torch.cuda.synchronize()
    return graph, x, total


def fails() -> None:
    """Each rank keeps its own numbers: no sum in any replay."""
    graph, x, total = _record(fork=False)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert total.eq(value).all()
    graph.reset()
    dist.destroy_process_group()


def works() -> None:
    """The stream waits for the capturing one before, and is waited for after."""
    graph, x, total = _record(fork=True)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert total.eq(2 * value).all()
    graph.reset()
    dist.destroy_process_group()
