"""Sequence model trained with a decaying learning rate."""
import torch
from torch import nn
from torch.optim import SGD, lr_scheduler


class Seq2Tag(nn.Module):
    def __init__(self, vocab=30, tags=6, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        h = self.emb(ids)
        h = h + self.conv(h.transpose(1, 2)).transpose(1, 2).relu()
        return self.out(h)


class Optimization:
    """Optimizer and schedule driven together."""

    def __init__(self, params, base=0.8, gamma=0.7):
        self.optimizer = SGD(params, lr=base)
        self.schedule = lr_scheduler.ExponentialLR(self.optimizer, gamma=gamma)

    def apply(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()


def make(device="cuda"):
    model = Seq2Tag().to(device)
    optim = Optimization(model.parameters())
    criterion = nn.CrossEntropyLoss()

    def step(ids, tags):
        loss = criterion(model(ids).flatten(0, 1), tags.flatten())
        optim.apply(loss)
        return loss.detach()

    def inputs():
        return torch.randint(0, 30, (4, 10), device=device), torch.randint(0, 6, (4, 10), device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
