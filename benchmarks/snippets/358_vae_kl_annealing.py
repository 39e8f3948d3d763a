"""Training step of a small variational autoencoder."""
import torch
import torch.nn.functional as F
from torch import nn


class Annealed:
    def __init__(self, ramp=12, top=1.0):
        self.ramp = ramp
        self.top = top
        self.updates = 0

    def _weight(self):
        return self.top * min(1.0, self.updates / self.ramp)

    def total(self, rec, kl):
        w = self._weight()
        self.updates += 1
        return rec + w * kl


class VAE(Annealed, nn.Module):
    def __init__(self, d=32, z=6):
        nn.Module.__init__(self)
        Annealed.__init__(self)
        self.enc = nn.Sequential(nn.Linear(d, 48), nn.ReLU(), nn.Linear(48, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 48), nn.ReLU(), nn.Linear(48, d))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        rec = F.mse_loss(self.dec(z), x)
        kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(-1).mean()
        return self.total(rec, kl)


def make(device="cuda"):
    vae = VAE().to(device)
    opt = torch.optim.SGD(vae.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        loss = vae(x)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(16, 32, device=device) + 1.0,)

    return {"fn": step, "inputs": inputs, "state": lambda: list(vae.parameters()), "kind": "training_step"}
