"""ddp-built-on-default-stream: DistributedDataParallel keeps gradient nodes of the default stream."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def _start() -> tuple[nn.Module, torch.Tensor, torch.cuda.Stream]:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    return nn.Linear(64, 8).to(device), torch.randn(16, 64, device=device), torch.cuda.Stream()


def _warm_up(ddp: DistributedDataParallel, x: torch.Tensor, stream: torch.cuda.Stream) -> None:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(11):
            ddp.zero_grad(set_to_none=True)
            ddp(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    ddp.zero_grad(set_to_none=True)


def fails() -> None:
    """Warm-up and capture use a side stream, but the wrapper was made before it."""
    net, x, stream = _start()
    ddp = DistributedDataParallel(net, device_ids=[x.device.index])
    _warm_up(ddp, x, stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        ddp(x).square().mean().backward()


def works() -> None:
    """The wrapper is made on the stream that warms up and captures."""
    net, x, stream = _start()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        ddp = DistributedDataParallel(net, device_ids=[x.device.index])
    torch.cuda.current_stream().wait_stream(stream)
    _warm_up(ddp, x, stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        ddp(x).square().mean().backward()
    for seed in (1, 2):
        torch.manual_seed(10 * seed + dist.get_rank())
        x.copy_(torch.randn_like(x))
        graph.replay()
        (want,) = torch.autograd.grad(net(x).square().mean(), net.weight)
        dist.all_reduce(want)
        torch.testing.assert_close(net.weight.grad, want / 2)
    graph.reset()
    dist.destroy_process_group()
