"""Classify the labelled nodes of small graphs of different sizes: python program.py --steps 200."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

FEATURES, WIDTH, LAYERS, CLASSES = 16, 48, 4, 5
MOST_NODES, MOST_EDGES = 160, 640


class Convolution(nn.Module):
    """Mean of the neighbours' messages, beside the node's own features."""

    def __init__(self):
        super().__init__()
        self.message, self.own, self.norm = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, source, target):
        received = torch.zeros_like(x).index_add(0, target, self.message(x)[source])
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1)
        return x + F.relu(self.norm(self.own(x) + received / degree[:, None]))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(Convolution() for _ in range(LAYERS))

    def forward(self, x, source, target):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, source, target)
        return self.head(x)


class Trainer:
    def __init__(self, device, lr=3e-3):
        self.device = torch.device(device)
        self.model = Network().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def step(self, x, edges, labels):
        """Labels are -1 where a node has none."""
        x, edges, labels = x.to(self.device), edges.to(self.device), labels.to(self.device)
        logits = self.model(x, edges[0], edges[1])
        known = labels >= 0
        loss = F.cross_entropy(logits[known], labels[known])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        hits = (logits[known].argmax(1) == labels[known]).float().mean()
        return loss.detach(), hits, logits.detach()

    def state(self):
        return self.model.state_dict()


def batches(count, seed):
    """Nodes whose class shows in their features, with edges inside of classes for the most part."""
    generator = torch.Generator().manual_seed(seed)

    def number(least, most):
        return int(torch.randint(least, most + 1, (), generator=generator))

    made = []
    for _ in range(count):
        nodes = number(40, MOST_NODES)
        labels = torch.randint(CLASSES, (nodes,), generator=generator)
        x = torch.randn(nodes, FEATURES, generator=generator)
        x[torch.arange(nodes), labels] += 1.0
        edges = torch.randint(nodes, (2, number(nodes, 4 * nodes)), generator=generator)
        known = torch.rand(nodes, generator=generator) < 0.4
        known[0] = True
        made.append((x, edges, torch.where(known, labels, -1)))
    return made


def build(device):
    return Trainer(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(args.device, args.lr)
    for number, batch in enumerate(batches(args.steps, 0)):
        loss, hits, _ = trainer.step(*batch)
        if number % 25 == 0:
            print(f"step {number} loss {loss.item():.3f} accuracy {hits.item():.2f}")


if __name__ == "__main__":
    main()
