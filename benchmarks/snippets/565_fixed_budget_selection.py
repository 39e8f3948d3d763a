"""Token pruning under a fixed budget, with counts of what was kept."""
import torch
from torch import nn


class Budget(nn.Module):
    def __init__(self, width=8, budget=6, banned=(0, 3)):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.score = nn.Linear(width, 1)
        self.budget = budget
        self.register_buffer("banned", torch.tensor(banned))

    def keep_mask(self, tokens, h):
        allowed = torch.isin(tokens, self.banned, invert=True)
        score = self.score(h).squeeze(-1)
        return allowed & (score > score.median())

    def select(self, mask):
        slots = mask.nonzero_static(size=self.budget, fill_value=-1).squeeze(1)
        valid = slots >= 0
        return slots.clamp_min(0), valid

    def forward(self, tokens):
        h = self.embed(tokens)
        mask = self.keep_mask(tokens, h)
        slots, valid = self.select(mask)
        kept = h.index_select(0, slots) * valid.unsqueeze(-1)
        return kept, torch.count_nonzero(mask), valid.sum()


def make(device="cuda"):
    torch.manual_seed(81)
    budget = Budget().to(device).eval()

    @torch.no_grad()
    def prune(tokens):
        return budget(tokens)

    def inputs():
        return (torch.randint(0, 20, (16,), device=device),)

    return {"fn": prune, "inputs": inputs, "kind": "inference"}
