"""Variational autoencoder whose KL term is ramped up over the first steps."""
import torch
from torch import nn


class Ramp:
    def __init__(self, amount=0.05, ceiling=1.0):
        self.value = torch.zeros(())
        self.amount = amount
        self.ceiling = ceiling

    def advance(self):
        self.value.add_(self.amount).clamp_(max=self.ceiling)
        return self.value


class VAE(nn.Module):
    def __init__(self, dim=20, code=4):
        super().__init__()
        self.enc = nn.Linear(dim, 2 * code)
        self.dec = nn.Sequential(nn.Linear(code, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1).mean()
        return self.dec(z), kl


class ElboStep:
    def __init__(self, vae, ramp, lr=0.01):
        self.vae, self.ramp = vae, ramp
        self.opt = torch.optim.SGD(vae.parameters(), lr=lr)

    def objective(self, x):
        recon, kl = self.vae(x)
        weight = self.ramp.advance()
        return (recon - x).square().mean() + weight * kl

    def __call__(self, x):
        self.opt.zero_grad(set_to_none=True)
        loss = self.objective(x)
        loss.backward()
        self.opt.step()
        return loss.detach()


def make(device="cuda"):
    vae = VAE().to(device)
    step = ElboStep(vae, Ramp())

    def inputs():
        return (torch.randn(16, 20, device=device),)

    return {"fn": step, "inputs": inputs, "state": lambda: list(vae.parameters()), "kind": "training_step"}
