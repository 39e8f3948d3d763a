"""Running observation normaliser for a policy, merged batch by batch."""
import torch
from torch import nn


class RunningNorm(nn.Module):
    def __init__(self, dim, clip=5.0):
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))
        self.register_buffer("count", torch.full((), 1e-4))

    @torch.no_grad()
    def update(self, x):
        n = x.shape[0]
        delta = x.mean(0) - self.mean
        total = self.count + n
        m2 = self.var * self.count + x.var(0, unbiased=False) * n + delta ** 2 * self.count * n / total
        self.mean += delta * n / total
        self.var.copy_(m2 / total)
        self.count.copy_(total)

    def forward(self, x):
        if self.training:
            self.update(x)
        return ((x - self.mean) * torch.rsqrt(self.var + 1e-6)).clamp(-self.clip, self.clip)


class Policy(nn.Module):
    def __init__(self, obs=6, act=2):
        super().__init__()
        self.norm = RunningNorm(obs)
        self.mu = nn.Linear(obs, act)
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(self, obs):
        mu = self.mu(self.norm(obs))
        return torch.tanh(mu + self.log_std.exp() * torch.randn_like(mu))


def make(device="cuda"):
    torch.manual_seed(84)
    policy = Policy().to(device).train()

    def act(obs):
        with torch.no_grad():
            return policy(obs)

    def inputs():
        return (3 * torch.randn(8, 6, device=device) + 1,)

    return {"fn": act, "inputs": inputs, "state": lambda: list(policy.norm.buffers()), "kind": "inference"}
