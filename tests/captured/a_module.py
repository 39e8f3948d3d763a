import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, width))

    def forward(self, x):
        return self.body(x)


class Ops:
    @staticmethod
    def scale(x):
        return x * 3

    @classmethod
    def shift(cls, x):
        return x + 3


class Scorer:
    def __init__(self):
        self.w = torch.randn(16, 4, device="cuda")

    def __call__(self, x):
        return torch.softmax(x @ self.w, -1)
