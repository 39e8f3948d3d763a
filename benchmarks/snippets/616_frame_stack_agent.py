"""Pixel agent acting on the last few processed frames."""
from collections import deque

import torch
from torch import nn


class FrameStackMixin:
    stack_size = 4

    def reset_stack(self, like):
        self._frames = deque([torch.zeros_like(like)] * self.stack_size, maxlen=self.stack_size)

    def push_frame(self, frame):
        self._frames.append(frame)
        return torch.cat(list(self._frames), dim=1)


class Agent(FrameStackMixin, nn.Module):
    def __init__(self, actions=5):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(self.stack_size, 8, 3, stride=2), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
        )
        self.q = nn.LazyLinear(actions)

    @staticmethod
    def preprocess(rgb):
        weights = (0.299, 0.587, 0.114)
        gray = sum(w * c for w, c in zip(weights, rgb.unbind(1)))
        return (gray.unsqueeze(1) - 0.5) * 2

    @torch.no_grad()
    def act_values(self, rgb):
        stacked = self.push_frame(self.preprocess(rgb))
        return self.q(self.conv(stacked))


def make(device="cuda"):
    agent = Agent().to(device)
    agent.reset_stack(torch.empty(2, 1, 16, 16, device=device))
    agent.act_values(torch.zeros(2, 3, 16, 16, device=device))

    def inputs():
        return (torch.rand(2, 3, 16, 16, device=device),)

    return {"fn": agent.act_values, "inputs": inputs, "kind": "inference"}
