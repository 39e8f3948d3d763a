"""Policy loss with a clipping rule inherited from a base class."""
import torch
from torch import nn


class BasePolicyLoss:
    def clip_range(self, advantage):
        spread = advantage.std().item()
        return 0.1 if spread > 1.0 else 0.3

    def normalise(self, advantage):
        if advantage.numel() == 1 or not advantage.any():
            return advantage
        return (advantage - advantage.mean()) / advantage.std()

    def __call__(self, logp, old_logp, advantage):
        eps = self.clip_range(advantage)
        adv = self.normalise(advantage)
        ratio = (logp - old_logp).exp()
        clipped = torch.clamp(ratio, 1 - eps, 1 + eps)
        return -torch.minimum(ratio * adv, clipped * adv).mean()


class ClippedLoss(BasePolicyLoss):
    def __init__(self, eps):
        self.eps = eps

    def clip_range(self, advantage):
        return self.eps

    def normalise(self, advantage):
        return (advantage - advantage.mean()) / (advantage.std() + 1e-8)


def make(device="cuda"):
    torch.manual_seed(67)
    actor = nn.Linear(6, 3).to(device)
    opt = torch.optim.SGD(actor.parameters(), lr=0.1)
    objective = ClippedLoss(0.2)

    def update(obs, act, old, adv):
        logp = actor(obs).log_softmax(-1).gather(1, act[:, None]).squeeze(1)
        loss = objective(logp, old, adv)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        n = 20
        return (torch.randn(n, 6, device=device), torch.randint(0, 3, (n,), device=device),
                -torch.rand(n, device=device) - 0.5, torch.randn(n, device=device))

    return {"fn": update, "inputs": inputs, "state": lambda: list(actor.parameters()), "kind": "training_step"}
