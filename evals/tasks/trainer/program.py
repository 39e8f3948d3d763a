"""Train a small character model: python program.py --steps 400 --lr 1e-3."""

import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, LENGTH, BATCH, WIDTH, HEADS, LAYERS = 96, 32, 8, 64, 4, 4
WARMUP, TOTAL = 8, 200


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class CharModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def schedule(step):
    """Linear warmup, then a cosine down to a tenth."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - WARMUP) / (TOTAL - WARMUP))))


class Trainer:
    def __init__(self, device, lr=1e-3, clip=1.0):
        self.device = torch.device(device)
        self.model = CharModel().to(self.device)
        self.clip = clip
        matrices = [p for p in self.model.parameters() if p.ndim > 1]
        vectors = [p for p in self.model.parameters() if p.ndim == 1]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0, "lr": 2 * lr}]
        self.optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, schedule)

    def step(self, tokens, targets):
        tokens, targets = tokens.to(self.device), targets.to(self.device)
        loss = F.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach(), norm.detach()

    def state(self):
        return self.model.state_dict()


def batches(count, seed):
    """Text of a made-up language: the next character depends on the last two."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(VOCAB, (VOCAB, 4), generator=generator)
    made = []
    for _ in range(count):
        text = torch.randint(VOCAB, (BATCH, LENGTH + 1), generator=generator)
        choice = torch.randint(4, (BATCH, LENGTH + 1), generator=generator)
        for place in range(1, LENGTH + 1):
            text[:, place] = table[text[:, place - 1], choice[:, place]]
        made.append((text[:, :-1].contiguous(), text[:, 1:].contiguous()))
    return made


def build(device):
    return Trainer(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(args.device, args.lr)
    start = time.time()
    for number, batch in enumerate(batches(args.steps, 0)):
        loss, norm = trainer.step(*batch)
        if number % 20 == 0:
            rate = trainer.optimizer.param_groups[0]["lr"]
            print(f"step {number} loss {loss.item():.4f} norm {norm.item():.2f} lr {rate:.2e} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
