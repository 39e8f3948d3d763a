"""Token sampler with repetition penalty and nucleus truncation."""
from dataclasses import dataclass

import torch


@dataclass
class SamplerConfig:
    top_p: float = 0.9
    temperature: float = 0.8
    penalty: float = 1.2
    floor: float = 0.0


class Sampler:
    def __init__(self, cfg):
        self.cfg = cfg

    def penalise(self, logits, history):
        seen = logits.gather(1, history)
        seen = torch.where(seen > 0, seen / self.cfg.penalty, seen * self.cfg.penalty)
        return logits.scatter(1, history, seen)

    def truncate(self, probs):
        ordered, index = probs.sort(dim=-1, descending=True)
        outside = ordered.cumsum(-1) - ordered > self.cfg.top_p
        ordered[outside] = self.cfg.floor
        return torch.zeros_like(probs).scatter_(-1, index, ordered)

    def __call__(self, logits, history):
        logits = self.penalise(logits, history) / self.cfg.temperature
        probs = self.truncate(logits.softmax(-1))
        token = torch.multinomial(probs, num_samples=1)
        return token, probs.gather(1, token)


def make(device="cuda"):
    sampler = Sampler(SamplerConfig())

    def inputs():
        return 2 * torch.randn(4, 40, device=device), torch.randint(0, 40, (4, 6), device=device)

    return {"fn": sampler, "inputs": inputs, "kind": "inference"}
