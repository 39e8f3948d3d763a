"""gradscaler-no-inf-checks: the gradients that the graph writes are no longer the parameters' gradients."""

import torch
from torch import nn


def _forward_backward(model: nn.Module, x: torch.Tensor, scaler: torch.amp.GradScaler) -> None:
    with torch.autocast("cuda", torch.float16):
        loss = model(x).square().mean()
    scaler.scale(loss).backward()


def _warm_up(model: nn.Module, x: torch.Tensor, scaler: torch.amp.GradScaler, opt: torch.optim.Optimizer) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            opt.zero_grad(set_to_none=True)
            _forward_backward(model, x, scaler)
            scaler.step(opt)
            scaler.update()
    torch.cuda.current_stream().wait_stream(stream)
    opt.zero_grad(set_to_none=True)


def fails() -> None:
    """zero_grad between replays sets .grad to None."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    _warm_up(model, x, scaler, opt)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _forward_backward(model, x, scaler)
    opt.zero_grad()
    graph.replay()
    scaler.step(opt)


def works() -> None:
    """Nothing is cleared: backward writes."""
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(32, 64, device="cuda")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    _warm_up(model, x, scaler, opt)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _forward_backward(model, x, scaler)
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        before = model.weight.detach().clone()
        graph.replay()
        scaler.step(opt)
        scaler.update()
        assert not torch.equal(model.weight, before)
