"""Clustering refinement that notes whether the summary of a pass has changed."""
from dataclasses import dataclass, field

import torch


@dataclass
class Summary:
    inertia: torch.Tensor
    spread: torch.Tensor
    clusters: int = 4


@dataclass
class KMeans:
    centers: torch.Tensor
    rounds: int = 3
    stalled: list = field(default_factory=list)

    def assign(self, x):
        return torch.cdist(x, self.centers).min(dim=1)

    def refine(self, x):
        best = self.assign(x)
        member = torch.nn.functional.one_hot(best.indices, self.centers.size(0)).to(x.dtype)
        mean = member.T @ x / member.sum(0).clamp_min(1.0).unsqueeze(1)
        self.centers.copy_(mean)
        return Summary(best.values.sum(), mean.var())

    def fit(self, x):
        last = None
        for _ in range(self.rounds):
            now = self.refine(x)
            if last is not None and now == last:
                self.stalled.append(len(self.stalled))
            last = now
        return last.inertia


def make(device="cuda"):
    torch.manual_seed(14)
    km = KMeans(torch.randn(4, 3, device=device))

    def inputs():
        return (torch.randn(50, 3, device=device),)

    return {"fn": km.fit, "inputs": inputs, "state": lambda: [km.centers], "kind": "training_step"}
