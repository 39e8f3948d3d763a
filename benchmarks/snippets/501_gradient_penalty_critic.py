"""Wasserstein critic update with a gradient penalty on interpolated samples."""
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, dim=4, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.Softplus(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)

    def penalty(self, real, fake):
        mix = torch.rand(real.size(0), 1, device=real.device)
        middle = torch.lerp(fake, real, mix).requires_grad_(True)
        score = self(middle).sum()
        slope, = torch.autograd.grad(score, middle, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean()


class CriticStep:
    def __init__(self, critic, lr=0.01, weight=10.0):
        self.critic, self.weight = critic, weight
        self.opt = torch.optim.SGD(critic.parameters(), lr=lr)

    def __call__(self, real, fake):
        gap = self.critic(fake).mean() - self.critic(real).mean()
        loss = gap + self.weight * self.critic.penalty(real, fake)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return gap.detach(), loss.detach()


def make(device="cuda"):
    torch.manual_seed(80)
    critic = Critic().to(device)

    def inputs():
        return torch.randn(12, 4, device=device) + 1, torch.randn(12, 4, device=device)

    return {
        "fn": CriticStep(critic),
        "inputs": inputs,
        "state": lambda: list(critic.parameters()),
        "kind": "training_step",
    }
