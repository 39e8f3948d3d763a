"""Token sampler with top-k and nucleus filtering."""
from __future__ import annotations

from typing import NamedTuple

import torch

NEG = float("-inf")


class SamplerConfig(NamedTuple):
    top_k: int = 20
    top_p: float = 0.9
    temperature: float = 0.8


def filter_top_k(logits: torch.Tensor, k: int) -> torch.Tensor:
    kth = logits.topk(k, dim=-1).values[..., -1:]
    return torch.where(logits < kth, NEG, logits)


def filter_top_p(logits: torch.Tensor, p: float) -> torch.Tensor:
    ordered, order = logits.sort(dim=-1, descending=True)
    mass = ordered.softmax(-1).cumsum(-1)
    drop = (mass - ordered.softmax(-1)) > p
    ordered = ordered.masked_fill(drop, NEG)
    return torch.empty_like(logits).scatter_(-1, order, ordered)


def sample(logits: torch.Tensor, cfg: SamplerConfig) -> torch.Tensor:
    logits = logits / cfg.temperature
    if cfg.top_k > 0:
        logits = filter_top_k(logits, min(cfg.top_k, logits.size(-1)))
    if cfg.top_p < 1.0:
        logits = filter_top_p(logits, cfg.top_p)
    return torch.multinomial(logits.softmax(-1), num_samples=1)


def make(device="cuda"):
    cfg = SamplerConfig()
    head = torch.nn.Linear(32, 96).to(device)

    @torch.inference_mode(False)
    @torch.no_grad()
    def next_token(hidden):
        return sample(head(hidden), cfg)

    return {"fn": next_token, "inputs": lambda: (torch.randn(8, 32, device=device),), "kind": "inference"}
