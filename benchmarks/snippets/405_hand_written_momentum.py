"""Text classifier trained by a hand-written momentum rule."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Momentum:
    def __init__(self, params, lr=0.5, beta=0.8):
        self.params = list(params)
        self.lr, self.beta = lr, beta
        self.velocity = [torch.zeros_like(p) for p in self.params]

    def _apply(self, p, v):
        p.data = p.data - self.lr * v

    def step(self):
        for p, v in zip(self.params, self.velocity):
            v.mul_(self.beta).add_(p.grad)
            self._apply(p, v)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


class BagOfWords(nn.Module):
    def __init__(self, vocab=70, dim=16, classes=4):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.fc = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.fc(self.emb(ids))


def make(device="cuda"):
    torch.manual_seed(76)
    net = BagOfWords().to(device)
    opt = Momentum(net.parameters())

    def step(ids, y):
        opt.zero_grad()
        loss = F.cross_entropy(net(ids), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return torch.randint(0, 70, (12, 9), device=device), torch.randint(0, 4, (12,), device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
