"""Differentially private training step of a small classifier."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap


class NoiseSource:
    def __init__(self, sigma, device, seed=17):
        self.sigma = sigma
        self.gen = torch.Generator(device=device).manual_seed(seed)

    def like(self, t):
        noise = torch.randn(t.shape, device=t.device, dtype=t.dtype, generator=self.gen)
        return noise * self.sigma


def clip(per_sample, bound):
    flat = torch.cat([g.flatten(1) for g in per_sample.values()], dim=1)
    scale = (bound / (flat.norm(dim=1) + 1e-6)).clamp(max=1.0)
    return {n: torch.einsum("n...,n->...", g, scale) for n, g in per_sample.items()}


def make(device="cuda"):
    net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    params = {n: p.detach() for n, p in net.named_parameters()}
    source = NoiseSource(0.8, device)

    def one(ps, x, y):
        return F.cross_entropy(functional_call(net, ps, (x[None],)), y[None])

    per_sample_grad = vmap(grad(one), in_dims=(None, 0, 0))

    def step(x, y):
        summed = clip(per_sample_grad(params, x, y), bound=1.0)
        for name, g in summed.items():
            noisy = (g + source.like(g)) / x.shape[0]
            params[name].sub_(0.2 * noisy)
        return functional_call(net, params, (x,)).logsumexp(-1)

    def inputs():
        return torch.randn(16, 10, device=device), torch.randint(0, 3, (16,), device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: list(params.values()), "kind": "training_step"}
