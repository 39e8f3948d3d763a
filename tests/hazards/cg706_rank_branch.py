"""rank-branch: the ranks record their collectives in different order, which pairs the wrong tensors in every replay."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    loss, count = torch.zeros(256, device=device), torch.zeros(256, device=device)
    dist.all_reduce(loss)
    dist.broadcast(count, src=0)
    if dist.get_rank() == 0:
        dist.send(count, 1)
    else:
        dist.recv(count, 0)
    torch.cuda.synchronize()
    return loss, count


def replayed(graph, loss, count):
    """The values of both after a replay; the inputs are 1 and 10, and 2 and 20 on rank 1."""
    right = dist.get_rank() + 1
    loss.fill_(right)
    count.fill_(10 * right)
    graph.replay()
    torch.cuda.synchronize()
    values = loss[0].item(), count[0].item()
    graph.reset()
    dist.destroy_process_group()
    return values


class Meters:
    def __init__(self):
        self.main = int(os.environ["RANK"]) == 0

    def reduce(self, loss, count):
        if not self.main:  # CG706
            dist.all_reduce(count)
            dist.all_reduce(loss)
            return
        dist.all_reduce(loss)
        dist.all_reduce(count)


def capture_bad_order_by_rank():
    loss, count = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if dist.get_rank() == 0:  # CG706
            dist.all_reduce(loss)
            dist.all_reduce(count)
        else:
            dist.all_reduce(count)
            dist.all_reduce(loss)
    return replayed(graph, loss, count) == (3.0, 30.0)


def capture_bad_early_return_of_other_ranks():
    loss, count = start()
    meters = Meters()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        meters.reduce(loss, count)
    return replayed(graph, loss, count) == (3.0, 30.0)


def capture_good_branch_without_collective():
    loss, count = start()
    rank = dist.get_rank()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if rank == 1:
            loss.mul_(2.0)
        dist.all_reduce(loss)
        dist.all_reduce(count)
    return replayed(graph, loss, count) == (5.0, 30.0)


def capture_good_same_collective_on_both_sides():
    loss, count = start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if dist.get_rank() == 0:
            dist.broadcast(loss, src=0)
        else:
            dist.broadcast(count, src=0)
    want = (1.0, 10.0) if dist.get_rank() == 0 else (2.0, 1.0)
    return replayed(graph, loss, count) == want


def capture_good_sender_and_receiver():
    loss, count = start()
    rank = dist.get_rank()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss.add_(0.0)
        if rank == 0:
            dist.send(loss, 1)
        else:
            dist.recv(count, 0)
    return replayed(graph, loss, count) == ((1.0, 10.0) if rank == 0 else (2.0, 1.0))
