"""Echo-state reservoir with a linear readout."""
import torch
from torch import nn


class DoubleBuffer:
    def __init__(self, *shape, device):
        self.slots = [torch.zeros(*shape, device=device), torch.zeros(*shape, device=device)]
        self.front = 0

    @property
    def current(self):
        return self.slots[self.front]

    @property
    def spare(self):
        return self.slots[1 - self.front]

    def swap(self):
        self.front ^= 1


class Reservoir(nn.Module):
    def __init__(self, inp=6, size=40, leak=0.3, radius=0.9):
        super().__init__()
        w = torch.randn(size, size)
        self.register_buffer("recurrent", w * radius / (w.norm() / size ** 0.5) / 2)
        self.register_buffer("drive", torch.randn(inp, size) * 0.5)
        self.leak = leak

    def evolve(self, buffers, u):
        old = buffers.current
        new = torch.tanh(old @ self.recurrent + u @ self.drive)
        buffers.spare.copy_(torch.lerp(old, new, self.leak))
        buffers.swap()
        return buffers.current


def make(device="cuda"):
    reservoir = Reservoir().to(device)
    readout = nn.Linear(40, 3).to(device).requires_grad_(False)
    buffers = DoubleBuffer(4, 40, device=device)

    @torch.no_grad()
    def tick(u):
        return readout(reservoir.evolve(buffers, u))

    def inputs():
        return (torch.randn(4, 6, device=device),)

    return {"fn": tick, "inputs": inputs, "state": lambda: list(buffers.slots), "kind": "inference"}
