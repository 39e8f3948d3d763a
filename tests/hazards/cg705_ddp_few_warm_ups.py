"""ddp-few-warm-ups: DDP is captured before its eleventh step, or was built on the default stream."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    return nn.Linear(64, 8).to(device), torch.randn(16, 64, device=device), torch.cuda.Stream()


def warm_up(ddp, x, stream, steps):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(steps):
            ddp.zero_grad(set_to_none=True)
            ddp(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(stream)
    ddp.zero_grad(set_to_none=True)


def stop(graph, ok):
    torch.cuda.synchronize()
    graph.reset()
    dist.destroy_process_group()
    return ok


def averaged(graph, net, x):
    """Whether a replay leaves the gradient averaged over the ranks."""
    x.copy_(torch.randn_like(x) + dist.get_rank())
    graph.replay()
    (want,) = torch.autograd.grad(net(x).square().mean(), net.weight)
    dist.all_reduce(want)
    return torch.allclose(net.weight.grad, want / 2, rtol=1e-3, atol=1e-5)


def capture_bad_three_steps():
    net, x, stream = start()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        ddp = DDP(net, device_ids=[x.device.index])
    warm_up(ddp, x, stream, 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        ddp(x).square().mean().backward()  # CG705
    return stop(graph, averaged(graph, net, x))


def capture_bad_built_on_default_stream():
    net, x, stream = start()
    ddp = DDP(net, device_ids=[x.device.index])  # CG705
    warm_up(ddp, x, stream, 11)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        ddp(x).square().mean().backward()
    return stop(graph, averaged(graph, net, x))


def capture_good_eleven_steps():
    net, x, stream = start()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        ddp = DDP(net, device_ids=[x.device.index])
    warm_up(ddp, x, stream, 11)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        ddp(x).square().mean().backward()
    return stop(graph, averaged(graph, net, x))


def capture_good_inference_without_gradients():
    net, x, stream = start()
    ddp = DDP(net, device_ids=[x.device.index])
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            ddp(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
        out = ddp(x)
    x.copy_(torch.randn_like(x))
    graph.replay()
    return stop(graph, torch.allclose(out, net(x), rtol=1e-3, atol=1e-4))
