"""Greedy decoding written as a generator of steps."""
import torch
from torch import nn


class TinyDecoder(nn.Module):
    def __init__(self, vocab=20, dim=24):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def advance(self, token, state):
        state = self.cell(self.emb(token), state)
        return self.out(state), state


class Search:
    def __init__(self, model, eos=0, limit=6):
        self.model, self.eos, self.limit = model, eos, limit

    def steps(self, state):
        token = torch.full((state.shape[0],), 1, dtype=torch.long, device=state.device)
        done = torch.zeros_like(token, dtype=torch.bool)
        for _ in range(self.limit):
            logits, state = self.model.advance(token, state)
            token = logits.argmax(-1).masked_fill(done, self.eos)
            done = done | (token == self.eos)
            yield token, logits
            if done.all():
                return

    @torch.no_grad()
    def __call__(self, state):
        score = torch.zeros(state.shape[0], device=state.device)
        for token, logits in self.steps(state):
            score = score + logits.log_softmax(-1).gather(1, token.unsqueeze(1)).squeeze(1)
        return score


def make(device="cuda"):
    search = Search(TinyDecoder().to(device))
    return {"fn": search, "inputs": lambda: (torch.randn(8, 24, device=device),), "kind": "inference"}
