"""gloo-collective: a collective on a CPU tensor happens once, at capture, and in no replay."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    x = torch.ones(256, device=device)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    return x


def follows(graph, x, tokens, beside=None):
    """Whether both sums follow the inputs of each replay; ends the process group."""
    right = []
    for value in (3.0, 5.0):
        x.fill_(value)
        tokens.fill_(value)
        graph.replay()
        if beside is not None:
            beside(tokens)
        torch.cuda.synchronize()
        right.append(bool(x.eq(2 * value).all()) and bool(tokens.eq(2 * value).all()))
    graph.reset()
    dist.destroy_process_group()
    return all(right)


class Counter:
    """Sums the tokens of all ranks over a group of its own."""

    def __init__(self):
        self.tokens = torch.ones(1)
        self.group = dist.new_group(backend="gloo")

    def sum(self):
        dist.all_reduce(self.tokens, group=self.group)  # CG707


def step(x, tokens):
    dist.all_reduce(x)
    parts = [torch.empty(1), torch.empty(1)]
    dist.all_gather(parts, tokens)  # CG707
    tokens.copy_(parts[0] + parts[1])


def capture_bad_sum_of_tokens():
    x = start()
    tokens = torch.ones(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        dist.all_reduce(tokens)  # CG707
    return follows(graph, x, tokens)


def capture_bad_counter_with_gloo_group():
    x = start()
    counter = Counter()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        counter.sum()
    return follows(graph, x, counter.tokens)


def capture_bad_gathered_in_helper():
    x = start()
    tokens = torch.ones(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(x, tokens)
    return follows(graph, x, tokens)


def capture_good_beside_the_replay():
    x = start()
    tokens = torch.ones(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    return follows(graph, x, tokens, beside=dist.all_reduce)


def capture_good_count_on_the_gpu():
    x = start()
    tokens = torch.ones(1, device=x.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        dist.all_reduce(tokens)
    return follows(graph, x, tokens)


def capture_good_once_before_the_capture():
    x = start()
    world, tokens = torch.ones(1), torch.ones(1, device=x.device)
    dist.all_reduce(world)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        dist.all_reduce(tokens)
        x.mul_(2.0 / world.item())
    return follows(graph, x, tokens)
