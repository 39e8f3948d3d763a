"""Masked language modelling loss over a bag-of-context encoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F

IGNORE = -100


def select(hidden, labels):
    wanted = labels.ne(IGNORE)
    return hidden[wanted], labels[wanted]


class Encoder(nn.Module):
    def __init__(self, vocab=64, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mix = nn.Conv1d(dim, dim, 5, padding=2)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        return h + F.gelu(self.mix(h.transpose(1, 2)).transpose(1, 2))


class MLM:
    def __init__(self, device):
        self.encoder = Encoder().to(device)

    def loss(self, ids, labels):
        picked, target = select(self.encoder(ids), labels)
        return F.cross_entropy(self.encoder.head(picked), target)


def make(device="cuda"):
    torch.manual_seed(33)
    task = MLM(device)
    params = list(task.encoder.parameters())

    def step(ids, labels):
        loss = task.loss(ids, labels)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads):
                p.sub_(g, alpha=0.1)
        return loss.detach()

    def inputs():
        ids = torch.randint(0, 64, (4, 16), device=device)
        hide = torch.rand(4, 16, device=device) < 0.3
        hide[:, 0] = True
        return ids, torch.where(hide, ids, IGNORE)

    return {"fn": step, "inputs": inputs, "state": lambda: params, "kind": "training_step"}
