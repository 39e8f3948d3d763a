"""One decoding step of a single-head attention layer with a key/value store."""
import torch
from torch import nn


class Store(dict):
    def extend(self, **new):
        for name, t in new.items():
            self[name] = torch.cat([self[name], t], dim=1) if name in self else t
        return [self[name] for name in new]


class DecodeStep(nn.Module):
    def __init__(self, vocab=50, width=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, vocab)
        self.store = Store()

    def forward(self, token):
        q, k, v = self.qkv(self.embed(token)).chunk(3, dim=-1)
        keys, values = self.store.extend(k=k, v=v)
        h = nn.functional.scaled_dot_product_attention(q, keys, values)
        return self.out(h[:, -1])


def make(device="cuda"):
    torch.manual_seed(46)
    decoder = DecodeStep().to(device).eval()

    @torch.no_grad()
    def step(token):
        return decoder(token)

    def inputs():
        return (torch.randint(0, 50, (2, 1), device=device),)

    return {"fn": step, "inputs": inputs, "kind": "inference"}
