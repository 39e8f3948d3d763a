"""Variational autoencoder objective with a guarded result."""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F


def sane(method):
    @functools.wraps(method)
    def inner(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        if not torch.isfinite(result).all():
            raise FloatingPointError(method.__name__)
        return result

    return inner


class VAE(nn.Module):
    def __init__(self, dim=20, latent=4):
        super().__init__()
        self.enc = nn.Linear(dim, 2 * latent)
        self.dec = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, dim))

    def encode(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        return mu, logvar.clamp(-5, 5)

    @sane
    def elbo(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        rec = F.mse_loss(self.dec(z), x)
        kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).mean()
        return rec + 0.1 * kl


def make(device="cuda"):
    torch.manual_seed(32)
    vae = VAE().to(device)
    opt = torch.optim.SGD(vae.parameters(), lr=0.01)

    def step(x):
        opt.zero_grad(set_to_none=True)
        loss = vae.elbo(x)
        loss.backward()
        opt.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(16, 20, device=device),),
            "state": lambda: list(vae.parameters()), "kind": "training_step"}
