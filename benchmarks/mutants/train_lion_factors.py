"""Matrix factorisation of ratings with a hand-written Lion optimizer and averaged factors."""
import torch
from torch import nn


class Factors(nn.Module):
    def __init__(self, users=40, items=60, dim=8):
        super().__init__()
        self.user = nn.Parameter(0.3 * torch.randn(users, dim))
        self.item = nn.Parameter(0.3 * torch.randn(items, dim))
        self.offset = nn.Parameter(torch.zeros(users, items))

    def forward(self):
        return (self.user[:, None] * self.item[None]).sum(-1) + self.offset


class Lion:
    """Sign of an interpolated momentum, decoupled decay, a rate that falls with the root of the step."""

    def __init__(self, params, lr=0.03, betas=(0.9, 0.95), decay=0.02):
        self.params = list(params)
        self.defaults = {"lr": lr, "betas": betas, "decay": decay}
        device = self.params[0].device
        self.count = torch.zeros((), device=device)
        self.moment = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def rate(self):
        self.count += 1
        return self.defaults["lr"] * self.count.rsqrt()

    @torch.no_grad()
    def step(self):
        b1, b2 = self.defaults["betas"]
        grads = [p.grad for p in self.params]
        rate = self.rate()
        updates = torch._foreach_lerp(self.moment, grads, 1 - b1)
        for p, u in zip(self.params, updates, strict=True):
            p.sub_(rate * (u.sign() + self.defaults["decay"] * p))
        torch._foreach_lerp_(self.moment, grads, 1 - b2)


class Fit:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.opt = Lion(model.parameters())
        self.polyak = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def track(self):
        torch._foreach_lerp_(self.polyak, self.opt.params, 0.25)

    def __call__(self, ratings, known):
        self.opt.zero_grad()
        error = (self.model() - ratings) * known
        loss = error.square().sum() / known.sum()
        loss.backward()
        self.opt.step()
        self.track()
        return loss.detach()

    def state(self):
        return [*self.opt.params, *self.polyak]


def make(device="cuda"):
    fit = Fit(Factors().to(device), device)

    def inputs():
        known = (torch.rand(40, 60, device=device) < 0.6).float()
        return 3 * torch.randn(40, 60, device=device), known

    return {"fn": fit, "inputs": inputs, "state": fit.state, "kind": "training_step", "warmup": 3}
