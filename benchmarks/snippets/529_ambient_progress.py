"""Loss with an annealed entropy bonus; progress is ambient, set by the loop driver."""
import contextvars

import torch
from torch import nn

progress = contextvars.ContextVar("progress", default=0.0)


def entropy_weight(start=0.5, end=0.01):
    return start + (end - start) * progress.get()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))

    def loss(self, obs, action, advantage):
        logp = self.body(obs).log_softmax(-1)
        chosen = logp.gather(1, action[:, None]).squeeze(1)
        entropy = -(logp.exp() * logp).sum(1)
        return -(chosen * advantage).mean() - entropy_weight() * entropy.mean()


def make(device="cuda"):
    torch.manual_seed(37)
    policy = Policy().to(device)
    opt = torch.optim.SGD(policy.parameters(), lr=0.1)
    done = {"steps": 0}

    def update(obs, action, advantage):
        loss = policy.loss(obs, action, advantage)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        done["steps"] += 1
        progress.set(min(1.0, done["steps"] / 20))
        return (
            torch.randn(8, 6, device=device),
            torch.randint(0, 4, (8,), device=device),
            torch.randn(8, device=device),
        )

    return {"fn": update, "inputs": inputs, "state": lambda: list(policy.parameters()), "kind": "training_step"}
