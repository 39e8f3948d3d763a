"""Advantage actor-critic update on rollouts with normalised observations."""
import torch
import torch.nn.functional as F
from torch import nn


class Normalizer:
    """Running mean and variance of the observations."""

    def __init__(self, dim, device):
        self.count = torch.full((), 1e-2, device=device)
        self.mean = torch.zeros(dim, device=device)
        self.var = torch.ones(dim, device=device)

    @torch.no_grad()
    def __call__(self, obs):
        flat = obs.flatten(0, -2)
        n = flat.shape[0]
        delta = flat.mean(0) - self.mean
        total = self.count + n
        spread = self.var * self.count + flat.var(0, correction=0) * n + delta.square() * self.count * n / total
        self.mean.add_(delta * n / total)
        self.var.copy_(spread / total)
        self.count.copy_(total)
        return (obs - self.mean) * (self.var + 1e-5).rsqrt()


class ActorCritic(nn.Module):
    def __init__(self, obs=10, act=3, width=48):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, act))
        self.value = nn.Sequential(nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.zeros(act))

    def evaluate(self, obs, noise):
        std = self.log_std.exp()
        mean = self.policy(obs)
        action = (mean + std * noise).detach()
        logp = (-0.5 * ((action - mean) / std).square() - self.log_std).sum(-1)
        return action, logp, self.value(obs).squeeze(-1)


class Learner:
    def __init__(self, device, gamma=0.95):
        self.net = ActorCritic().to(device)
        self.normalize = Normalizer(10, device)
        self.params = list(self.net.parameters())
        self.gamma, self.entropy_weight = gamma, 0.05
        self.slow_value = [p.detach().clone() for p in self.net.value.parameters()]
        self.baseline = torch.zeros((), device=device)
        self.updates = torch.zeros((), dtype=torch.long, device=device)
        self.opt = torch.optim.AdamW(self.params, lr=1e-2, fused=True, capturable=True)

    def exploration(self, like):
        return 0.2 + 0.8 * torch.rand((), device=like.device)

    @torch.no_grad()
    def returns(self, reward, last):
        out = torch.empty_like(reward)
        for t in range(reward.shape[0] - 1, -1, -1):
            last = reward[t] + self.gamma * last
            out[t] = last
        self.baseline.lerp_(out.mean(), 0.25)
        return out - self.baseline

    @torch.no_grad()
    def follow(self):
        tau = 0.5 * (self.updates % 2 == 0)
        for slow, fast in zip(self.slow_value, self.net.value.parameters(), strict=True):
            slow.add_(tau * (fast - slow))

    def bootstrap(self, obs):
        w1, b1, w2, b2 = self.slow_value
        return F.linear(torch.tanh(F.linear(obs, w1, b1)), w2, b2).squeeze(-1)

    def step(self, obs, final, target):
        obs = self.normalize(obs)
        noise = self.exploration(obs) * torch.randn(*obs.shape[:-1], 3, device=obs.device)
        action, logp, value = self.net.evaluate(obs, noise)
        reward = -(action - target).square().mean(-1)
        returns = self.returns(reward, self.bootstrap(final))
        advantage = returns - value.detach()
        entropy = self.net.log_std.sum()
        loss = F.mse_loss(value, returns) - (logp * advantage).mean() - self.entropy_weight * entropy
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.updates.add_(1)
        self.follow()
        return loss.detach(), reward.mean()

    def state(self):
        return [*self.params, *self.slow_value, self.baseline]


def make(device="cuda"):
    learner = Learner(device)

    def inputs():
        obs = 1 + 2 * torch.randn(6, 16, 10, device=device)
        return obs, torch.randn(16, 10, device=device), torch.randn(6, 16, 3, device=device)

    return {"fn": learner.step, "inputs": inputs, "state": learner.state, "kind": "training_step", "warmup": 3}
