"""Fit a regressor with a plateau schedule and early stopping: python program.py --steps 2000 --patience 3."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn

FEATURES, BATCH, EVERY, WIDTH = 24, 64, 3, 96


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [], FEATURES
        for _ in range(5):
            layers += [nn.Linear(width, WIDTH), nn.BatchNorm1d(WIDTH), nn.SiLU()]
            width = WIDTH
        self.body, self.head = nn.Sequential(*layers), nn.Linear(WIDTH, 1)

    def forward(self, x):
        return self.head(self.body(x))[:, 0]


class Fit:
    """Trains until validation has not improved for `patience` checks, keeps the best weights, and begins the next fit."""

    def __init__(self, device, lr=1e-2, patience=2):
        self.device, self.lr, self.patience = torch.device(device), lr, patience
        self.model = Regressor().to(self.device)
        self.first = copy.deepcopy(self.model.state_dict())
        generator = torch.Generator().manual_seed(99)
        self.held_out = [tensor.to(self.device) for tensor in sample(256, generator)]
        self.best_state, self.fits = self.first, 0
        self.restart()

    def restart(self):
        self.model.load_state_dict(self.first)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=self.lr, momentum=0.5)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, factor=0.5, patience=0, threshold=0.1)
        self.best, self.waited, self.count = float("inf"), 0, 0

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            loss = F.mse_loss(self.model(self.held_out[0]), self.held_out[1])
        self.model.train()
        return loss

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        self.optimizer.zero_grad()
        loss = F.smooth_l1_loss(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_value_(self.model.parameters(), 0.5)
        self.optimizer.step()
        self.count += 1
        best = self.best
        if self.count % EVERY == 0:
            self.check()
        return loss.detach(), best, self.fits

    def check(self):
        held_out = self.validate()
        self.plateau.step(held_out)
        if held_out < 0.9 * self.best:
            self.best, self.waited = held_out.item(), 0
            self.best_state = copy.deepcopy(self.model.state_dict())
        else:
            self.waited += 1
        if self.waited >= self.patience:
            self.fits += 1
            self.restart()

    def state(self):
        return {**self.model.state_dict(), **{f"best.{name}": value for name, value in self.best_state.items()}}


def sample(count, generator):
    x = torch.randn(count, FEATURES, generator=generator)
    return x, (x[:, 0] * x[:, 1]).tanh() + x[:, 2:6].sum(1) / 2 + 0.1 * torch.randn(count, generator=generator)


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [sample(BATCH, generator) for _ in range(count)]


def build(device):
    return Fit(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--patience", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    fit = Fit(args.device, args.lr, args.patience)
    for number, batch in enumerate(batches(args.steps, 0)):
        loss, best, fits = fit.step(*batch)
        if number % 30 == 0:
            print(
                f"step {number} fit {fits} loss {float(loss):.4f} best {best:.4f} lr {fit.optimizer.param_groups[0]['lr']:.1e}"
            )


if __name__ == "__main__":
    main()
