"""One training step of a tiny causal character model."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import AdamW as Opt


class CharLM(nn.Module):
    def __init__(self, vocab=64, dim=32, heads=4, ctx=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(ctx, dim) * 0.02)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, vocab, bias=False)
        self.heads = heads

    def forward(self, ids):
        b, t = ids.shape
        h = self.tok(ids) + self.pos[:t]
        q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
        q, k, v = (s.view(b, t, self.heads, -1).transpose(1, 2) for s in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.proj(a.transpose(1, 2).reshape(b, t, -1))
        return self.out(h)


def make(device="cuda"):
    lm = CharLM().to(device)
    opt = Opt(lm.parameters(), lr=2e-3, weight_decay=0.05, betas=(0.9, 0.95))

    def step(ids):
        opt.zero_grad(set_to_none=True)
        logits = lm(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        return loss.detach()

    return {
        "fn": step,
        "inputs": lambda: (torch.randint(0, 64, (4, 17), device=device),),
        "state": lambda: list(lm.parameters()),
        "kind": "training_step",
    }
