"""nested-capture: the region captures, or replays, a graph of its own."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_graph_inside_the_step(x):
    inner = torch.cuda.CUDAGraph()
    with torch.cuda.graph(inner):  # CG406
        out = x.tanh() * 2
    inner.replay()  # CG406
    return out


class GraphedEncoder:
    def __init__(self, encoder, sample):
        self.x = sample
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                encoder(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = encoder(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()  # CG406
        return self.out


encoder = nn.Sequential(nn.Linear(8, 8), nn.GELU()).to(DEVICE).requires_grad_(False)
graphed_encoder = GraphedEncoder(encoder, torch.zeros(4, 8, device=DEVICE))


def bad_encoder_with_a_graph(x):
    return graphed_encoder(x).softmax(-1)


head = nn.Linear(8, 3).to(DEVICE)
graphed_head = torch.cuda.make_graphed_callables(nn.Linear(8, 3).to(DEVICE), (torch.zeros(4, 8, device=DEVICE),))


def bad_graphed_callable(x):
    return graphed_head(x).detach().exp()  # CG406


fast_norm = torch.compile(nn.LayerNorm(8).to(DEVICE).requires_grad_(False), mode="reduce-overhead")


def bad_reduce_overhead(x):
    return fast_norm(x) + x  # CG406


def good_plain_encoder(x):
    return encoder(x).softmax(-1)


def good_ungraphed_head(x):
    return head(x).detach().exp()


compiled_norm = torch.compile(nn.LayerNorm(8).to(DEVICE).requires_grad_(False))


def good_default_compiled(x):
    return compiled_norm(x) + x


class ReplayBuffer:
    def __init__(self, size):
        self.rows = torch.zeros(size, 8, device=DEVICE)

    def graph(self, x):
        return x @ x.T

    def replay(self, x):
        self.rows[:4].copy_(x)
        return self.rows.mean(0)


buffer = ReplayBuffer(16)


def good_replay_of_experience(x):
    return buffer.replay(x), buffer.graph(x)
