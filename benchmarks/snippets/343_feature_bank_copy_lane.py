"""Retrieval scorer that refreshes its query bank on a copy lane."""
import contextlib

import torch
from torch import nn


class CopyLane:
    """Keeps the small copies away from the compute work."""

    def __init__(self, device):
        self.cuda = device == "cuda"

    @contextlib.contextmanager
    def open(self):
        if not self.cuda:
            yield
            return
        with torch.cuda.stream(torch.cuda.default_stream()):
            yield


class Bank:
    def __init__(self, rows, dim, device):
        self.lane = CopyLane(device)
        self.keys = torch.randn(512, dim, device=device)
        self.query = torch.zeros(rows, dim, device=device)
        self.gain = 0.5

    def load(self, q):
        with self.lane.open():
            torch.mul(q, self.gain, out=self.query)

    def scores(self):
        q = nn.functional.normalize(self.query, dim=-1)
        return q @ nn.functional.normalize(self.keys, dim=-1).t()


def make(device="cuda"):
    bank = Bank(6, 32, device)

    @torch.no_grad()
    def lookup(q):
        bank.load(q)
        return bank.scores().topk(8, dim=-1)

    def inputs():
        return (torch.randn(6, 32, device=device),)

    return {"fn": lambda q: tuple(lookup(q)), "inputs": inputs,
            "state": lambda: [bank.query], "kind": "inference"}
