"""Top-k and nucleus sampling of the next token."""
import torch
from torch import nn


class Warper:
    def __call__(self, logits):
        raise NotImplementedError


class TopK(Warper):
    def __init__(self, k):
        self.k = k

    def __call__(self, logits):
        floor = logits.topk(self.k, dim=-1).values[:, -1:]
        return logits.masked_fill(logits < floor, float("-inf"))


class Nucleus(Warper):
    def __init__(self, p):
        self.p = p

    def __call__(self, logits):
        vals, order = logits.sort(dim=-1, descending=True)
        before = vals.softmax(-1).cumsum(-1) - vals.softmax(-1)
        vals = torch.where(before > self.p, float("-inf"), vals)
        return torch.full_like(logits, float("-inf")).scatter(1, order, vals)


class Temperature(Warper):
    def __init__(self, t):
        self.t = t

    def __call__(self, logits):
        return logits / self.t


class Decoder(nn.Module):
    def __init__(self, vocab=120, dim=24):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.out = nn.Linear(dim, vocab)
        self.warpers = [Temperature(0.8), TopK(40), Nucleus(0.9)]

    @torch.no_grad()
    def sample(self, ids):
        logits = self.out(self.emb(ids))
        for warp in self.warpers:
            logits = warp(logits)
        prob = logits.softmax(-1)
        tok = torch.multinomial(prob, num_samples=1)
        return tok, prob.gather(1, tok).log()


def make(device="cuda"):
    dec = Decoder().to(device).eval()
    return {"fn": dec.sample, "inputs": lambda: (torch.randint(0, 120, (6, 9), device=device),), "kind": "inference"}
