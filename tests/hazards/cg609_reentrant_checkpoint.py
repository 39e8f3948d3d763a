"""reentrant-checkpoint: checkpoint(use_reentrant=True) in a module that make_graphed_callables differentiates."""

import functools

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

DEVICE = "cuda"


class ReentrantBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        return checkpoint(self.fc, x, use_reentrant=True).relu()  # CG609


class Block(nn.Module):
    recompute = staticmethod(functools.partial(checkpoint, use_reentrant=False))

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        return self.recompute(self.fc, x).relu()


class SavesMemoryInTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        if self.training:
            return checkpoint(self.fc, x, use_reentrant=True).relu()
        return self.fc(x).relu()


def sample():
    return torch.randn(4, 16, device=DEVICE, requires_grad=True)


def agrees(graphed, fc):
    """Whether the gradient of the input is that of the eager layers."""
    x = sample()
    (got,) = torch.autograd.grad(graphed(x).square().mean(), x)
    (want,) = torch.autograd.grad(nn.functional.linear(x, fc.weight, fc.bias).relu().square().mean(), x)
    return torch.allclose(got, want, rtol=1e-3, atol=1e-5)


def capture_bad_checkpoint_in_module():
    block = ReentrantBlock().to(DEVICE)
    return agrees(torch.cuda.make_graphed_callables(block, (sample(),)), block.fc)


def capture_bad_argument_left_out():
    fc = nn.Linear(16, 16).to(DEVICE)

    def block(x):
        return checkpoint(fc, x).relu()  # CG609

    return agrees(torch.cuda.make_graphed_callables(block, (sample(),)), fc)


def capture_bad_sequential_in_segments():
    layers = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Identity()).to(DEVICE)

    def chunked(x):
        return checkpoint_sequential(layers, 2, x, use_reentrant=True)  # CG609

    return agrees(torch.cuda.make_graphed_callables(chunked, (sample(),)), layers[0])


def capture_good_not_reentrant():
    block = Block().to(DEVICE)
    return agrees(torch.cuda.make_graphed_callables(block, (sample(),)), block.fc)


def capture_good_only_in_training():
    block = SavesMemoryInTraining().to(DEVICE).eval()
    return agrees(torch.cuda.make_graphed_callables(block, (sample(),)), block.fc)


def capture_good_whole_step():
    block = SavesMemoryInTraining().to(DEVICE)
    x, side = sample(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            block(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(side)
    block.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        block(x).square().mean().backward()
    x.data.normal_()
    graph.replay()
    want = torch.autograd.grad(nn.functional.linear(x, *block.fc.parameters()).relu().square().mean(), block.fc.weight)
    return torch.allclose(block.fc.weight.grad, want[0], rtol=1e-3, atol=1e-5)
