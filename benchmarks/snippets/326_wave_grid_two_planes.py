"""Two-dimensional wave propagation driven by a source term."""
import torch
import torch.nn.functional as F


class Planes:
    def __init__(self, n, device):
        self.field = [torch.zeros(1, 1, n, n, device=device) for _ in range(2)]
        self.turn = 0

    @property
    def front(self):
        return self.field[self.turn]

    @property
    def back(self):
        return self.field[1 - self.turn]

    def swap(self):
        self.turn = 1 - self.turn


class WaveSim:
    def __init__(self, n=32, courant=0.4, damping=0.01, device="cuda"):
        self.planes = Planes(n, device)
        self.c2 = courant ** 2
        self.damping = damping
        lap = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
        self.kernel = lap.view(1, 1, 3, 3).to(device)

    def advance(self, source):
        p = self.planes
        lap = F.conv2d(F.pad(p.front, (1, 1, 1, 1)), self.kernel)
        nxt = (2 - self.damping) * p.front - (1 - self.damping) * p.back + self.c2 * lap
        p.back.copy_(nxt + source)
        p.swap()
        return p.front.clone()

    def energy(self):
        return (self.planes.front - self.planes.back).square().sum()


def make(device="cuda"):
    sim = WaveSim(device=device)

    def tick(source):
        field = sim.advance(source)
        return field, sim.energy()

    def inputs():
        return (torch.randn(1, 1, 32, 32, device=device),)

    return {"fn": tick, "inputs": inputs, "state": lambda: sim.planes.field, "kind": "inference"}
