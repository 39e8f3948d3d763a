"""Score catalogue items for a session and suppress those already seen."""
import torch
import torch.nn as nn


class SessionScorer(nn.Module):
    def __init__(self, items=120, dim=16):
        super().__init__()
        self.emb = nn.Embedding(items, dim, padding_idx=0)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.items = items

    def pool(self, hist):
        vec = self.emb(hist)
        pad = hist == 0
        vec[pad] = 0.0
        out, _ = self.gru(vec)
        return out[:, -1]

    def forward(self, hist):
        query = self.pool(hist)
        scores = query @ self.emb.weight.t()
        seen = torch.zeros_like(scores, dtype=torch.bool)
        seen.scatter_(1, hist, True)
        scores[seen] = float("-inf")
        scores[:, 0] = float("-inf")
        return scores


def make(device="cuda"):
    torch.manual_seed(3)
    scorer = SessionScorer().to(device).eval()

    @torch.no_grad()
    def rank(hist):
        scores = scorer(hist)
        top = scores.topk(10, dim=-1)
        return top.values, top.indices

    def inputs():
        hist = torch.randint(1, 120, (8, 12), device=device)
        hist[:, :3] = 0
        return (hist,)

    return {"fn": rank, "inputs": inputs, "kind": "inference"}
