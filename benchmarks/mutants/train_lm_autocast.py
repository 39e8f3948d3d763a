"""Small causal language model with a cycling attention window, trained under bfloat16 autocast."""
import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)).float() * (d // self.heads) ** -0.5
        y = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.mlp(self.norm2(x)))


class Trunk(nn.Module):
    def __init__(self, vocab=61, dim=32, length=16, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Parameter(0.1 * torch.randn(length, dim))
        self.layers = nn.ModuleList(Layer(dim, 4) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids, mask):
        h = self.embed(ids) + self.place
        for layer in self.layers:
            h = layer(h, mask)
        return self.norm(h)


class Pretrainer:
    def __init__(self, trunk, device, length=16):
        self.trunk, self.device = trunk, device
        self.opt = torch.optim.Adam(trunk.parameters(), lr=1e-2, fused=True, capturable=True)
        self.tick = torch.zeros((), dtype=torch.long, device=device)
        self.gap = torch.arange(length, device=device)[:, None] - torch.arange(length, device=device)
        self.table = trunk.embed.weight.detach().to(torch.bfloat16)

    def window_mask(self):
        width = 2 + self.tick % 5
        return (self.gap >= 0) & (self.gap < width)

    def corrupt(self, ids):
        return ids.masked_fill(torch.rand(ids.shape, device=ids.device) < 0.15, 0)

    def objective(self, logits, labels):
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        stabiliser = 0.1 * logits.logsumexp(-1).square().mean()
        return loss + stabiliser * (self.tick % 3 == 0)

    @torch.no_grad()
    def refresh_table(self):
        self.table.copy_(self.trunk.embed.weight)

    def step(self, ids, labels):
        self.tick.add_(1)
        ids = self.corrupt(ids)
        with torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16):
            h = self.trunk(ids, self.window_mask())
            logits = F.linear(h, self.table).float()
        loss = self.objective(logits, labels)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.refresh_table()
        return loss.detach()

    def state(self):
        return list(self.trunk.parameters())


def make(device="cuda"):
    trainer = Pretrainer(Trunk().to(device).train(), device)

    def inputs():
        ids = torch.randint(1, 61, (8, 17), device=device)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    return {"fn": trainer.step, "inputs": inputs, "state": trainer.state, "kind": "training_step", "warmup": 3}
