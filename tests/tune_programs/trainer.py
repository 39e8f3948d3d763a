"""Train a small regression network with a trainer class; prints the loss of every fifth step."""

import argparse

import torch
from torch import nn


class Trainer:
    """Holds the network, its optimizer and a learning rate that falls."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        layers = [nn.Sequential(nn.Linear(args.width, args.width), nn.GELU(), nn.LayerNorm(args.width)) for _ in range(6)]
        self.net = nn.Sequential(*layers, nn.Linear(args.width, 1)).cuda()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=torch.tensor(args.lr, device="cuda"), capturable=True)
        self.steps = args.steps

    def step(self, x, y):
        """Train on one batch; return its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, batches):
        """Train on all batches."""
        for number in range(self.steps):
            loss = self.step(*batches[number % len(batches)])
            self.optimizer.param_groups[0]["lr"].mul_(0.99)
            if number % 5 == 4:
                print(f"step {number + 1} loss {loss.item():.9e}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trainer = Trainer(args)
    x = torch.randn(4, 64, args.width, device="cuda")
    trainer.fit([(each, each.sum(1, keepdim=True).tanh()) for each in x])


if __name__ == "__main__":
    main()
