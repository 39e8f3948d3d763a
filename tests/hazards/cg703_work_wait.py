"""work-wait: the handle of an asynchronous collective is dropped in the region instead of being waited for."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(1024, device=device)
    dist.all_reduce(x.clone())
    dist.all_reduce(x.clone(), async_op=True).wait()
    torch.cuda.synchronize()
    return x


def right_sums(graph, x, *totals):
    """Whether replays give the sum over both ranks of twice the new input; ends the process group."""
    right = []
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        right.extend(bool(total.eq(4 * value).all()) for total in totals)
    graph.reset()
    dist.destroy_process_group()
    return all(right)


class Reducer(nn.Module):
    """Reduces buckets while the rest of the step goes on."""

    def __init__(self):
        super().__init__()
        self.handles = []

    def reduce(self, bucket):
        self.handles.append(dist.all_reduce(bucket, async_op=True))

    def finish(self):
        while self.handles:
            self.handles.pop().wait()


def reduce_and_forget(total):
    dist.all_reduce(total, async_op=True)  # CG703


def capture_bad_handle_dropped():
    x = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        dist.all_reduce(total, op=dist.ReduceOp.SUM, async_op=True)  # CG703
    return right_sums(graph, x, total)


def capture_bad_helper_forgets():
    x = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first, second = x * 2, x + x
        reduce_and_forget(first)
        dist.all_reduce(second)
    return right_sums(graph, x, first, second)


def capture_good_waited_after_other_work():
    x = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        handle = dist.all_reduce(total, async_op=True)
        other = x.square().sqrt()
        handle.wait()
        total = total + other - other
    return right_sums(graph, x, total)


def capture_good_all_handles_waited():
    x = start()
    reducer = Reducer()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        buckets = [x * 2, x + x]
        for bucket in buckets:
            reducer.reduce(bucket)
        reducer.finish()
    return right_sums(graph, x, *buckets)


def capture_good_not_asynchronous():
    x = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x * 2
        dist.all_reduce(total, async_op=False)
    return right_sums(graph, x, total)
