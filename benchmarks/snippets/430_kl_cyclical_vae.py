"""Variational autoencoder trained with a cyclical KL weight."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def cyclical(period, top):
    while True:
        for i in range(period):
            yield top * (i + 1) / period


class Model(nn.Module):
    def __init__(self, dim=16, latent=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, 24), nn.ReLU(), nn.Linear(24, dim))
        self.weights = cyclical(5, 4.0)

    def penalty(self, mu, logvar):
        kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1).mean()
        return next(self.weights) * kl

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return F.mse_loss(self.dec(z), x) + self.penalty(mu, logvar)


def make(device="cuda"):
    torch.manual_seed(72)
    model = Model().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(x):
        opt.zero_grad(set_to_none=True)
        loss = model(x)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(16, 16, device=device) * 2,)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
