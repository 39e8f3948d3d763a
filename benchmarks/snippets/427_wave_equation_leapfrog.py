"""Driven diffusion stencil on a small grid."""
import torch
import torch.nn.functional as F


class DoubleBuffer:
    def __init__(self, shape, device):
        self.grids = (torch.zeros(shape, device=device), torch.zeros(shape, device=device))
        self.front = 0

    @property
    def current(self):
        return self.grids[self.front]

    @property
    def scratch(self):
        return self.grids[1 - self.front]

    def swap(self):
        self.front = 1 - self.front


class Stencil:
    def __init__(self, n, device, rate=0.2):
        self.field = DoubleBuffer((1, 1, n, n), device)
        k = torch.zeros(1, 1, 3, 3)
        k[0, 0, 1, 1] = -4.0
        for i, j in ((0, 1), (1, 0), (1, 2), (2, 1)):
            k[0, 0, i, j] = 1.0
        self.kernel = k.to(device)
        self.rate = rate

    def advance(self, force):
        u = self.field.current
        lap = F.conv2d(F.pad(u, (1, 1, 1, 1), mode="replicate"), self.kernel)
        self.field.scratch.copy_(u + self.rate * lap + force)
        self.field.swap()
        return self.field.current.mean((0, 1))


def make(device="cuda"):
    torch.manual_seed(68)
    sim = Stencil(16, device)

    def inputs():
        return (torch.randn(1, 1, 16, 16, device=device),)

    return {"fn": sim.advance, "inputs": inputs, "state": lambda: [sim.field.current], "kind": "inference"}
