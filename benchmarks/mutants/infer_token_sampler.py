"""Next-token sampling with temperature, top-k and a fading repetition penalty, all on the device."""
import torch
from torch import nn


def keep_top_k(logits, k):
    """Keep the k best entries of every row, k differing from row to row."""
    ordered = logits.sort(dim=-1, descending=True).values
    floor = ordered.gather(-1, (k - 1).unsqueeze(-1))
    return logits.masked_fill(logits < floor, float("-inf"))


def draw(probs):
    """Sample one entry per row by the exponential race."""
    race = torch.empty_like(probs).exponential_()
    return (probs / race).argmax(dim=-1)


class Repetition(nn.Module):
    """Remembers what was said lately and makes it less likely."""

    def __init__(self, rows, vocab, strength=0.6, forget=0.9):
        super().__init__()
        self.strength, self.forget = strength, forget
        self.register_buffer("counts", torch.zeros(rows, vocab))
        self.register_buffer("one", torch.ones(rows, 1))

    def penalise(self, logits):
        return logits - self.strength * self.counts

    def record(self, token):
        self.counts.mul_(self.forget)
        self.counts.scatter_add_(1, token.unsqueeze(-1), self.one)


class Sampler(nn.Module):
    def __init__(self, dim, vocab, rows):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)
        self.repetition = Repetition(rows, vocab)
        nn.init.normal_(self.head.weight, std=0.3)

    @torch.no_grad()
    def forward(self, hidden, temperature, top_k):
        logits = self.head(self.norm(hidden))
        logits = self.repetition.penalise(logits)
        logits = logits / temperature.unsqueeze(-1)
        logits = keep_top_k(logits, top_k)
        probs = logits.softmax(-1)
        token = draw(probs)
        self.repetition.record(token)
        return token, probs


def make(device="cuda"):
    torch.manual_seed(102)
    rows, dim, vocab = 8, 24, 64
    sampler = Sampler(dim, vocab, rows).to(device).eval()

    def inputs():
        hidden = torch.randn(rows, dim, device=device)
        temperature = torch.empty(rows, device=device).uniform_(0.5, 1.5)
        top_k = torch.randint(8, 40, (rows,), device=device)
        return hidden, temperature, top_k

    return {
        "fn": sampler,
        "inputs": inputs,
        "state": lambda: [sampler.repetition.counts],
        "kind": "inference",
        "warmup": 3,
    }
