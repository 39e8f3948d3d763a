"""Train a student beside an averaged teacher: python program.py --steps 300."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn

FEATURES, WIDTH, BATCH, EVERY = 32, 80, 32, 4


def network():
    layers = [nn.Linear(FEATURES, WIDTH), nn.GELU()]
    for _ in range(4):
        layers += [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, FEATURES))


class Trainer:
    def __init__(self, device, lr=2e-3):
        self.device = torch.device(device)
        self.student = network().to(self.device)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=lr)
        self.count = 0

    def loss(self, view, other, clean):
        with torch.no_grad():
            wanted = F.normalize(self.teacher(other), dim=1)
        out = self.student(view)
        return F.mse_loss(F.normalize(out, dim=1), wanted) + 0.1 * F.mse_loss(out, clean)

    def step(self, view, other, clean):
        view, other, clean = view.to(self.device), other.to(self.device), clean.to(self.device)
        loss = self.loss(view, other, clean)
        if self.count % EVERY == 0:  # a penalty on large weights, now and then
            loss = loss + 1e-3 * sum(weight.square().sum() for weight in self.student.parameters())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        decay = min(0.99, (1 + self.count) / (10 + self.count))
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                slow.lerp_(fast, 1 - decay)
        self.count += 1
        return loss.detach()

    def state(self):
        teacher = {f"teacher.{name}": value for name, value in self.teacher.state_dict().items()}
        return {**self.student.state_dict(), **teacher}


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        clean = torch.randn(BATCH, 4, generator=generator) @ torch.randn(4, FEATURES, generator=generator)
        view, other = (clean + 0.3 * torch.randn(BATCH, FEATURES, generator=generator) for _ in range(2))
        made.append((view, other, clean))
    return made


def build(device):
    return Trainer(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(args.device, args.lr)
    for number, batch in enumerate(batches(args.steps, 0)):
        loss = trainer.step(*batch)
        if number % 50 == 0:
            print(f"step {number} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
