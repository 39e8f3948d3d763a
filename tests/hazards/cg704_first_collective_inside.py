"""first-collective-inside: a process group is used for the first time while the stream captures."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn


def start():
    dist.init_process_group("nccl")
    return torch.ones(1024, device=f"cuda:{os.environ['LOCAL_RANK']}")


def right_sums(graph, x):
    """Whether each replay sums its new input over both ranks; ends the process group."""
    right = []
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        right.append(bool(x.eq(2 * value).all()))
    graph.reset()
    dist.destroy_process_group()
    return all(right)


class RowParallel(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group = group

    def forward(self, x):
        x = x * 1.0
        dist.all_reduce(x, group=self.group)  # CG704
        return x


def total_of(x):
    dist.all_reduce(x)  # CG704
    return x


def capture_bad_no_collective_before():
    x = start()
    x.add_(0.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)  # CG704
    return right_sums(graph, x)


def capture_bad_only_local_warm_up():
    x = start()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            x.mul_(1.0)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total_of(x.mul_(1.0))
    return right_sums(graph, x)


def capture_bad_new_group_of_layer():
    x = start()
    layer = RowParallel(dist.new_group([0, 1]))
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(layer(x))
    return right_sums(graph, x)


def capture_good_once_before():
    x = start()
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    return right_sums(graph, x)


def capture_good_once_in_each_group():
    x = start()
    pair = dist.new_group([0, 1])
    for group in (None, pair):
        dist.all_reduce(x.clone(), group=group)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x, group=pair)
    return right_sums(graph, x)


def capture_good_group_that_the_region_leaves_alone():
    x = start()
    unused = dist.new_group([0, 1])
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x.mul_(1.0))
    return right_sums(graph, x) and unused is not None
