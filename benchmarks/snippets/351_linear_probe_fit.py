"""Linear probe on frozen features."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5)
        self.sched = lr_scheduler.ExponentialLR(self.opt, gamma=0.85)
        self.after = [self.opt.step, self.sched.step]

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def fit_batch(self, x, y):
        self.opt.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        for action in self.after:
            action()
        return loss.detach()


class Probe(nn.Module):
    def __init__(self, frozen, dim, classes):
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        with torch.no_grad():
            feats = self.frozen(x)
        return self.head(F.layer_norm(feats, feats.shape[-1:]))


def make(device="cuda"):
    frozen = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 20))
    probe = Probe(frozen, 20, 6).to(device)
    trainer = Trainer(probe.train(), lr=1.0)

    def inputs():
        return torch.randn(20, 12, device=device), torch.randint(0, 6, (20,), device=device)

    return {"fn": trainer.fit_batch, "inputs": inputs,
            "state": lambda: list(probe.head.parameters()), "kind": "training_step"}
