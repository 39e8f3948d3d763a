"""Ancestral diffusion sampler that moves its latent one noise level per call, with the level table on the device."""
import torch
from torch import nn


def karras_levels(steps, low=0.1, high=4.0, rho=7.0):
    ramp = torch.linspace(0, 1, steps + 1)
    return (high ** (1 / rho) + ramp * (low ** (1 / rho) - high ** (1 / rho))) ** rho


def ancestral_split(sigma, following):
    """Noise level to step down to, and how much fresh noise brings it back up."""
    up = (following**2 * (sigma**2 - following**2) / sigma**2).clamp(min=0).sqrt()
    down = (following**2 - up**2).clamp(min=0).sqrt()
    return down, up


class Denoiser(nn.Module):
    def __init__(self, dim, cond, hidden=48):
        super().__init__()
        self.inp = nn.Linear(dim + 1, hidden)
        self.cond = nn.Linear(cond, hidden)
        self.out = nn.Linear(hidden, dim)
        nn.init.normal_(self.cond.weight, std=0.5)

    def forward(self, x, sigma, cond):
        skip = 1.0 / (sigma**2 + 1.0)
        level = (sigma.log() / 4).expand(x.shape[0], 1)
        h = torch.tanh(self.inp(torch.cat([x * skip.sqrt(), level], dim=-1)) + self.cond(cond))
        return skip * x + sigma * skip.sqrt() * self.out(h)


class AncestralSampler(nn.Module):
    def __init__(self, denoiser, sigmas, batch, dim):
        super().__init__()
        self.denoiser = denoiser
        self.steps = sigmas.numel() - 1
        self.register_buffer("sigmas", sigmas)
        self.register_buffer("index", torch.zeros(1, dtype=torch.long, device=sigmas.device))
        self.register_buffer("latent", sigmas[:1] * torch.randn(batch, dim, device=sigmas.device))

    def window(self):
        return self.sigmas.index_select(0, self.index), self.sigmas.index_select(0, self.index + 1)

    def noise(self, like):
        return torch.randn_like(like)

    def predict(self, x, sigma, cond, guidance):
        known = self.denoiser(x, sigma, cond)
        blank = self.denoiser(x, sigma, torch.zeros_like(cond))
        return blank + guidance * (known - blank)

    @torch.no_grad()
    def forward(self, cond, guidance):
        sigma, following = self.window()
        x = self.latent
        clean = self.predict(x, sigma, cond, guidance)
        down, up = ancestral_split(sigma, following)
        noise = self.noise(x)
        moved = x + (x - clean) / sigma * (down - sigma) + up * noise
        self.index.add_(1).remainder_(self.steps)
        restart = self.index == 0  # a finished sample makes room for a new one
        self.latent.copy_(torch.where(restart, self.sigmas[:1] * noise, moved))
        return clean, moved


def make(device="cuda"):
    torch.manual_seed(103)
    batch, dim, cond = 6, 16, 5
    denoiser = Denoiser(dim, cond).to(device)
    sampler = AncestralSampler(denoiser, karras_levels(10).to(device), batch, dim).eval()

    def inputs():
        return torch.randn(batch, cond, device=device), torch.empty(1, device=device).uniform_(1.0, 4.0)

    return {
        "fn": sampler,
        "inputs": inputs,
        "state": lambda: [sampler.latent, sampler.index],
        "kind": "inference",
        "warmup": 3,
    }
