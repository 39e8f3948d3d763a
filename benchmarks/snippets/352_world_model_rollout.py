"""Latent dynamics model trained over a short imagined rollout."""
from functools import partial

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

guard = partial(clip_grad_norm_, max_norm=5.0, error_if_nonfinite=True)


class Dynamics(nn.Module):
    def __init__(self, latent=24, act=4):
        super().__init__()
        self.cell = nn.GRUCell(act, latent)
        self.obs = nn.Linear(latent, 10)
        self.rew = nn.Linear(latent, 1)

    def rollout(self, z, acts):
        for a in acts.unbind(1):
            z = self.cell(a, z)
            yield self.obs(z), self.rew(z).squeeze(-1)


class Learner:
    def __init__(self, model, lr):
        self.model = model
        self.params = list(model.parameters())
        self.opt = torch.optim.SGD(self.params, lr=lr, momentum=0.9)

    def apply(self, loss):
        self.opt.zero_grad()
        loss.backward()
        norm = guard(self.params)
        self.opt.step()
        return norm

    def __call__(self, z, acts, obs, rew):
        loss = 0.0
        for t, (o, r) in enumerate(self.model.rollout(z, acts)):
            loss = loss + (o - obs[:, t]).square().mean() + (r - rew[:, t]).square().mean()
        norm = self.apply(loss)
        return loss.detach(), norm


def make(device="cuda"):
    learner = Learner(Dynamics().to(device), lr=0.02)

    def inputs():
        return (torch.randn(8, 24, device=device), torch.randn(8, 5, 4, device=device),
                torch.randn(8, 5, 10, device=device), torch.randn(8, 5, device=device))

    return {"fn": learner, "inputs": inputs, "state": lambda: learner.params, "kind": "training_step"}
