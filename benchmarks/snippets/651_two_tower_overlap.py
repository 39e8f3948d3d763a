"""Two-tower scorer that evaluates the towers side by side."""
import contextlib

import torch
from torch import nn


class Lane:
    """A second queue of work beside the current one."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream() if device == "cuda" else None

    @contextlib.contextmanager
    def beside(self):
        if self.stream is None:
            yield
            return
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            yield

    def join(self):
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)


def tower(inp, out):
    return nn.Sequential(nn.Linear(inp, 64), nn.GELU(), nn.Linear(64, out))


class TwoTower(nn.Module):
    def __init__(self, lane):
        super().__init__()
        self.query = tower(20, 16)
        self.doc = tower(30, 16)
        self.lane = lane

    def forward(self, q, d):
        with self.lane.beside():
            dv = self.doc(d)
        qv = self.query(q)
        self.lane.join()
        return torch.einsum("bd,bnd->bn", qv, dv)


def make(device="cuda"):
    model = TwoTower(Lane(device)).to(device)
    model.requires_grad_(False)

    def inputs():
        return torch.randn(8, 20, device=device), torch.randn(8, 5, 30, device=device)

    return {"fn": model, "inputs": inputs, "kind": "inference"}
