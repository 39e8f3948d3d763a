"""barrier-inside: a barrier makes the host wait for work that is only recorded."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch.distributed import barrier as wait_for_all


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x, flag = torch.ones(1024, device=device), torch.ones(1, device=device)
    dist.all_reduce(x.clone())
    dist.all_reduce(flag)
    dist.barrier()
    torch.cuda.synchronize()
    return x, flag


def right_sums(graph, x, total):
    """Whether replays give the sum over both ranks of twice the new input; ends the process group."""
    right = []
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        right.append(bool(total.eq(4 * value).all()))
    graph.reset()
    dist.destroy_process_group()
    return all(right)


class Stage:
    def __init__(self, group=None):
        self.group = group

    def __enter__(self):
        dist.barrier(group=self.group)  # CG701
        return self

    def __exit__(self, *exception):
        return False


class Mesh:
    """Its barrier() is a one-element all-reduce on the GPU."""

    def __init__(self, flag):
        self.flag = flag

    def barrier(self):
        dist.all_reduce(self.flag)


def capture_bad_between_two_parts():
    x, _flag = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        wait_for_all()  # CG701
        dist.all_reduce(total)
    return right_sums(graph, x, total)


def capture_bad_in_timed_stage():
    x, _flag = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), Stage():
        total = x * 2
        dist.all_reduce(total)
    return right_sums(graph, x, total)


def capture_good_before_and_after():
    x, _flag = start()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        dist.all_reduce(total)
    dist.barrier()
    return right_sums(graph, x, total)


def capture_good_barrier_on_the_gpu():
    x, flag = start()
    mesh = Mesh(flag)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        mesh.barrier()
        dist.all_reduce(total)
    return right_sums(graph, x, total)
