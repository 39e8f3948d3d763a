"""Recurrent belief filter with an immutable state record."""
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Belief:
    hidden: Tensor
    evidence: Tensor


class Filter(nn.Module):
    def __init__(self, obs=5, width=8):
        super().__init__()
        self.cell = nn.GRUCell(obs, width)
        self.gate = nn.Linear(width, 1)

    def advance(self, belief: Belief, obs: Tensor) -> Belief:
        h = self.cell(obs, belief.hidden)
        return replace(belief, hidden=h, evidence=belief.evidence + self.gate(h).squeeze(-1))


class Agent:
    def __init__(self, filt: Filter, n: int, device):
        self.filter = filt
        self.belief = Belief(torch.zeros(n, 8, device=device), torch.zeros(n, device=device))

    @torch.no_grad()
    def observe(self, obs: Tensor) -> Tensor:
        self.belief = self.filter.advance(self.belief, obs)
        return torch.sigmoid(self.belief.evidence)


def make(device="cuda"):
    torch.manual_seed(35)
    agent = Agent(Filter().to(device), 4, device)

    def inputs():
        return (torch.randn(4, 5, device=device),)

    return {
        "fn": agent.observe,
        "inputs": inputs,
        "state": lambda: [agent.belief.hidden, agent.belief.evidence],
        "kind": "inference",
    }
