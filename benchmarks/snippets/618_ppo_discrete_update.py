"""Clipped policy gradient update for a discrete policy."""
import functools

import torch
from torch import nn
from torch.distributions import Categorical

FastCategorical = functools.partial(Categorical, validate_args=False)


class ActorCritic(nn.Module):
    def __init__(self, obs=6, act=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh())
        self.pi = nn.Linear(32, act)
        self.v = nn.Linear(32, 1)

    def distribution(self, obs):
        h = self.body(obs)
        return FastCategorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class PPO:
    def __init__(self, net, clip=0.2, epochs=3, lr=0.01):
        self.net, self.clip, self.epochs, self.lr = net, clip, epochs, lr

    def losses(self, obs, act, old_logp, adv, ret):
        dist, value = self.net.distribution(obs)
        ratio = (dist.log_prob(act) - old_logp).exp()
        pg = -torch.minimum(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv).mean()
        return pg + 0.5 * (value - ret).square().mean() - 0.01 * dist.entropy().mean()

    def update(self, obs, adv, ret):
        with torch.no_grad():
            dist, _ = self.net.distribution(obs)
            act = dist.sample()
            old_logp = dist.log_prob(act)
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        params = list(self.net.parameters())
        for _ in range(self.epochs):
            loss = self.losses(obs, act, old_logp, adv, ret)
            grads = torch.autograd.grad(loss, params)
            with torch.no_grad():
                for p, g in zip(params, grads):
                    p -= self.lr * g
        return loss.detach()


def make(device="cuda"):
    ppo = PPO(ActorCritic().to(device))

    def inputs():
        return torch.randn(64, 6, device=device), torch.randn(64, device=device), torch.randn(64, device=device)

    return {"fn": ppo.update, "inputs": inputs, "state": lambda: list(ppo.net.parameters()), "kind": "training_step"}
