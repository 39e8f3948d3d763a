"""Reader that attends over everything it has seen in the episode."""
import torch
from torch import nn


class Episode:
    def __init__(self):
        self.items = []

    def add(self, k, v):
        self.items.append((k, v))

    def stacked(self):
        ks, vs = zip(*self.items)
        return torch.stack(ks, dim=1), torch.stack(vs, dim=1)


class Reader(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.gate = nn.Linear(2 * dim, dim)
        self.episode = Episode()

    def recall(self, q):
        ks, vs = self.episode.stacked()
        w = torch.einsum("bd,btd->bt", q, ks).div(q.shape[-1] ** 0.5).softmax(-1)
        return torch.einsum("bt,btd->bd", w, vs)

    def forward(self, x):
        self.episode.add(self.k(x), self.v(x))
        read = self.recall(self.q(x))
        g = torch.sigmoid(self.gate(torch.cat([x, read], dim=-1)))
        return g * x + (1 - g) * read


def make(device="cuda"):
    reader = Reader().to(device).eval()

    def read(x):
        with torch.no_grad():
            return reader(x)

    return {
        "fn": read,
        "inputs": lambda: (2 * torch.randn(6, 32, device=device),),
        "kind": "inference",
    }
