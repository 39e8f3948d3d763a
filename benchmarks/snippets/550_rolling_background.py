"""Foreground extraction against a short memory of frames."""
from collections import deque

import torch


class FrameMemory:
    def __init__(self, depth, shape, device):
        self.slots = deque(torch.zeros(shape, device=device) for _ in range(depth))

    def push(self, frame):
        self.slots[-1].copy_(frame)
        self.slots.rotate(1)

    def oldest(self):
        return self.slots[-1]

    def background(self):
        return torch.stack(tuple(self.slots)).median(dim=0).values


class Foreground:
    def __init__(self, depth=3, shape=(6, 6), device="cpu"):
        self.memory = FrameMemory(depth, shape, device)

    def __call__(self, frame):
        self.memory.push(frame)
        motion = (frame - self.memory.oldest()).abs()
        return motion * (frame > self.memory.background())


def make(device="cuda"):
    fg = Foreground(device=device)

    def inputs():
        return (torch.rand(6, 6, device=device),)

    return {"fn": fg, "inputs": inputs, "state": lambda: sorted_slots(fg), "kind": "inference"}


def sorted_slots(fg):
    return [torch.stack(tuple(fg.memory.slots)).sort(dim=0).values]
