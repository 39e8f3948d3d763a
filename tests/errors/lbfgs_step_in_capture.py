"""lbfgs-step-in-capture: LBFGS decides on the host how often it calls its closure."""

import torch
from torch import nn


def _warm_up(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            nn.functional.mse_loss(model(x), y).backward()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=True)


def fails() -> None:
    """The whole step is captured."""
    model = nn.Linear(64, 64).cuda()
    x, y = torch.randn(32, 64, device="cuda"), torch.randn(32, 64, device="cuda")
    opt = torch.optim.LBFGS(model.parameters(), max_iter=4)
    _warm_up(model, x, y)

    def closure() -> torch.Tensor:
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step(closure)


def works() -> None:
    """The eager optimizer replays the closure's work."""
    model = nn.Linear(64, 64).cuda()
    x, y = torch.randn(32, 64, device="cuda"), torch.randn(32, 64, device="cuda")
    opt = torch.optim.LBFGS(model.parameters(), max_iter=4)
    _warm_up(model, x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()

    def closure() -> torch.Tensor:
        graph.replay()
        return loss.detach().clone()

    for _ in range(2):
        y.copy_(torch.randn_like(y))
        start = float(closure())
        for _ in range(5):
            opt.step(closure)
        assert float(closure()) < start
