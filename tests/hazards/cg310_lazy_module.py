"""lazy-module: what is created on the first call is created again by every replay if that call is the captured one."""

import torch
from torch import nn

DEVICE = "cuda"


class Velocity:
    def __init__(self):
        self.velocity = None

    def __call__(self, x):
        if self.velocity is None:
            self.velocity = torch.zeros_like(x)  # CG310
        return self.velocity.mul_(0.9).add_(x).clone()


class Centered(nn.Module):
    def forward(self, x):
        if not hasattr(self, "mean"):
            self.register_buffer("mean", x.new_zeros(x.shape[-1]))  # CG310
        self.mean.lerp_(x.mean(0), 0.1)
        return x - self.mean


class EagerVelocity:
    def __init__(self, shape):
        self.velocity = torch.zeros(shape, device=DEVICE)

    def __call__(self, x):
        return self.velocity.mul_(0.9).add_(x).clone()


class Positions:
    def __init__(self):
        self.table = None

    def __call__(self, x):
        if self.table is None:
            self.table = torch.arange(8, device=DEVICE).cos()
        return x * self.table


def agrees(graph, static_x, out, reference):
    for _ in range(3):
        static_x.normal_()
        graph.replay()
        expected = reference(static_x)
    return torch.allclose(out, expected, atol=1e-5)


def capture_bad_velocity():
    step, static_x, graph = Velocity(), torch.randn(4, 8, device=DEVICE), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(static_x)
    return agrees(graph, static_x, out, Velocity())


def capture_bad_buffer_behind_hasattr():
    step, static_x, graph = Centered(), torch.randn(4, 8, device=DEVICE), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(static_x)
    return agrees(graph, static_x, out, Centered())


def capture_bad_lazy_linear():
    static_x, graph = torch.randn(4, 8, device=DEVICE), torch.cuda.CUDAGraph()
    body, head = nn.Linear(8, 8).to(DEVICE), nn.LazyLinear(8).to(DEVICE)
    body(static_x)
    with torch.no_grad(), torch.cuda.graph(graph):
        out = head(static_x)  # CG310
    graph.replay()
    first = out.clone()
    graph.replay()
    return torch.allclose(out, first)


def capture_good_velocity_from_init():
    step, static_x, graph = EagerVelocity((4, 8)), torch.randn(4, 8, device=DEVICE), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(static_x)
    return agrees(graph, static_x, out, Velocity())


def capture_good_lazy_linear_called_before():
    static_x, graph = torch.randn(4, 8, device=DEVICE), torch.cuda.CUDAGraph()
    head = nn.LazyLinear(8).to(DEVICE)
    head(static_x)
    with torch.no_grad(), torch.cuda.graph(graph):
        out = head(static_x)
    return agrees(graph, static_x, out, head)


def capture_good_constant_table():
    step, static_x, graph = Positions(), torch.randn(4, 8, device=DEVICE), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(static_x)
    return agrees(graph, static_x, out, Positions())
