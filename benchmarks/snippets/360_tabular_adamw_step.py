"""Tabular network step with decoupled weight decay and clipping."""
import torch
import torch.nn.functional as F
from torch import nn


def groups(model, decay):
    yes, no = [], []
    for name, p in model.named_parameters():
        (no if p.ndim < 2 or "emb" in name else yes).append(p)
    return [{"params": yes, "weight_decay": decay}, {"params": no, "weight_decay": 0.0}]


class Tabular(nn.Module):
    def __init__(self, cards=(5, 12, 30), nums=6, dim=8):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(c, dim) for c in cards)
        self.norm = nn.BatchNorm1d(nums)
        self.mlp = nn.Sequential(
            nn.Linear(dim * len(cards) + nums, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 1)
        )

    def forward(self, cat, num):
        rows = [e(cat[:, i]) for i, e in enumerate(self.emb)]
        return self.mlp(torch.cat([*rows, self.norm(num)], dim=-1)).squeeze(-1)


def make(device="cuda"):
    model = Tabular().to(device).train()
    extra = {"capturable": True} if device == "cuda" else {}
    opt = torch.optim.AdamW(groups(model, 0.02), lr=3e-3, **extra)

    def step(cat, num, y):
        opt.zero_grad(set_to_none=True)
        loss = F.smooth_l1_loss(model(cat, num), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.detach(), norm

    def inputs():
        cat = torch.stack([torch.randint(0, c, (24,), device=device) for c in (5, 12, 30)], dim=1)
        num = torch.randn(24, 6, device=device)
        return cat, num, num.sum(-1)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()) + list(model.buffers()), "kind": "training_step"}
