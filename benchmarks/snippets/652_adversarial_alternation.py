"""Point-cloud GAN trained with several critic updates for each generator update."""
import torch
from torch import nn
from torch.nn.functional import softplus


def net(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.LeakyReLU(0.2), nn.Linear(32, o))


class EveryN:
    def __init__(self, n):
        self.n = n
        self.count = 0

    def due(self):
        self.count += 1
        return self.count % self.n == 0


class GAN:
    def __init__(self, device, n_critic=2):
        self.g, self.d = net(8, 2).to(device), net(2, 1).to(device)
        self.turn = EveryN(n_critic)

    @staticmethod
    def sgd(params, loss, lr=0.1):
        params = list(params)
        for p, g in zip(params, torch.autograd.grad(loss, params)):
            p.data.sub_(g, alpha=lr)

    def critic_update(self, real, noise):
        fake = self.g(noise).detach()
        loss = softplus(-self.d(real)).mean() + softplus(self.d(fake)).mean()
        self.sgd(self.d.parameters(), loss)
        return loss.detach()

    def generator_update(self, noise):
        self.sgd(self.g.parameters(), softplus(-self.d(self.g(noise))).mean())

    def train(self, real, noise):
        loss = self.critic_update(real, noise)
        if self.turn.due():
            self.generator_update(noise)
        return loss, self.g(noise).detach()


def make(device="cuda"):
    gan = GAN(device)

    def inputs():
        return torch.randn(32, 2, device=device) + 1.5, torch.randn(32, 8, device=device)

    return {"fn": gan.train, "inputs": inputs, "kind": "training_step",
            "state": lambda: [*gan.g.parameters(), *gan.d.parameters()]}
