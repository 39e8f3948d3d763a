"""Adversarial training, one player per step."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Gan:
    def __init__(self, device, z=4, dim=10):
        self.g = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, dim)).to(device)
        self.d = nn.Sequential(nn.Linear(dim, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
        self.train_generator = False

    def losses(self):
        return {True: self.generator_loss, False: self.critic_loss}[self.train_generator]

    def generator_loss(self, real, z):
        return F.softplus(-self.d(self.g(z))).mean()

    def critic_loss(self, real, z):
        fake = self.g(z).detach()
        return F.softplus(-self.d(real)).mean() + F.softplus(self.d(fake)).mean()

    def turn(self, real, z):
        params = list((self.g if self.train_generator else self.d).parameters())
        loss = self.losses()(real, z)
        grads = torch.autograd.grad(loss, params)
        torch._foreach_add_([p.data for p in params], list(grads), alpha=-0.3)
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(75)
    gan = Gan(device)

    def inputs():
        gan.train_generator = not gan.train_generator
        return torch.randn(16, 10, device=device) + 2, torch.randn(16, 4, device=device)

    return {"fn": gan.turn, "inputs": inputs, "kind": "training_step",
            "state": lambda: [*gan.g.parameters(), *gan.d.parameters()]}
