"""Sequence tagger with two micro-batches per step and a decaying gradient memory."""
import torch
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab=50, dim=24, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.head = nn.Linear(dim, tags)

    def forward(self, ids):
        h = self.embed(ids).transpose(1, 2)
        return self.head(torch.relu(self.conv(h)).transpose(1, 2))


class Accumulator:
    """Sums the gradients of the micro-batches into buffers that keep a part of the former steps."""

    def __init__(self, params, carry):
        self.params = params
        self.carry = carry
        self.sums = [torch.zeros_like(p) for p in params]

    def collect(self):
        torch._foreach_add_(self.sums, [p.grad for p in self.params])
        for p in self.params:
            p.grad = None

    def fade(self):
        torch._foreach_mul_(self.sums, self.carry)


class Trainer:
    def __init__(self, net, device, lr=0.2, micro=2):
        self.net, self.micro = net, micro
        self.params = list(net.parameters())
        self.acc = Accumulator(self.params, 0.5)
        self.lr = torch.full((1,), lr, device=device)
        self.domains = torch.tensor([[1.0, 0.2, 0.6], [0.3, 1.0, 0.1], [0.8, 0.5, 1.5], [0.1, 0.9, 0.4]], device=device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)

    def domain_weights(self):
        row = self.domains.index_select(0, self.cursor)[0]
        self.cursor.add_(1).remainder_(len(self.domains))
        return row

    def micro_loss(self, ids, tags, domain, row, strength):
        each = F.cross_entropy(self.net(ids).transpose(1, 2), tags, reduction="none").mean(1)
        return (each * row[domain]).mean() * strength

    @torch.no_grad()
    def update(self):
        self.lr.mul_(0.97)
        for p, total in zip(self.params, self.acc.sums, strict=True):
            p.sub_(self.lr * total)
        self.acc.fade()

    def step(self, ids, tags, domain, strength):
        row = self.domain_weights()
        total = torch.zeros((), device=ids.device)
        for part in zip(ids.chunk(self.micro), tags.chunk(self.micro), domain.chunk(self.micro), strict=True):
            loss = self.micro_loss(*part, row, strength) / self.micro
            loss.backward()
            with torch.no_grad():
                self.acc.collect()
            total += loss.detach()
        self.update()
        return total

    def state(self):
        return [*self.params, *self.acc.sums]


def make(device="cuda"):
    trainer = Trainer(Tagger().to(device), device)

    def inputs():
        ids, tags = torch.randint(0, 50, (16, 12), device=device), torch.randint(0, 5, (16, 12), device=device)
        strength = 0.5 + torch.rand((), device=device)
        return ids, tags, torch.randint(0, 3, (16,), device=device), strength

    return {"fn": trainer.step, "inputs": inputs, "state": trainer.state, "kind": "training_step", "warmup": 3}
