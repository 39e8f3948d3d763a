"""One decoding step of a single-layer language model with a fixed-size cache."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=32, max_len=64, batch=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out = nn.Linear(dim, vocab)
        self.max_len = max_len
        self.register_buffer("keys", torch.zeros(batch, max_len, dim))
        self.register_buffer("values", torch.zeros(batch, max_len, dim))
        self.register_buffer("slots", torch.arange(max_len))
        self.register_buffer("pos", torch.zeros(1, dtype=torch.long))

    def write(self, h):
        self.keys.index_copy_(1, self.pos, self.k(h))
        self.values.index_copy_(1, self.pos, self.v(h))

    @torch.no_grad()
    def forward(self, token):
        h = self.emb(token)
        self.write(h)
        visible = (self.slots <= self.pos).view(1, 1, -1)
        ctx = F.scaled_dot_product_attention(self.q(h), self.keys, self.values, attn_mask=visible)
        self.pos.add_(1).remainder_(self.max_len)
        return self.out(h + ctx).squeeze(1)


def make(device="cuda"):
    torch.manual_seed(8)
    model = Decoder().to(device).eval()

    def inputs():
        return (torch.randint(0, 50, (3, 1), device=device),)

    return {
        "fn": model.forward,
        "inputs": inputs,
        "state": lambda: [model.keys, model.values, model.pos],
        "kind": "inference",
    }
