"""ddp-too-few-warmup-steps: DDP still measures its first iterations, which waits for events on the host."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def _record(warmups: int) -> tuple[torch.cuda.CUDAGraph, nn.Linear, torch.Tensor]:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    net, x, stream = nn.Linear(64, 8).to(device), torch.randn(16, 64, device=device), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        ddp = DistributedDataParallel(net, device_ids=[device.index])
        for _ in range(warmups):
            ddp.zero_grad(set_to_none=True)
            ddp(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    ddp.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        ddp(x).square().mean().backward()
    return graph, net, x


def fails() -> None:
    """Three, as for a single GPU."""
    _record(warmups=3)


def works() -> None:
    """Eleven: the statistics of the first ten are done."""
    graph, net, x = _record(warmups=11)
    for seed in (1, 2):
        torch.manual_seed(10 * seed + dist.get_rank())
        x.copy_(torch.randn_like(x))
        graph.replay()
        (want,) = torch.autograd.grad(net(x).square().mean(), net.weight)
        dist.all_reduce(want)
        torch.testing.assert_close(net.weight.grad, want / 2)
    graph.reset()
    dist.destroy_process_group()
