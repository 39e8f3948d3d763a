"""Layer-wise scaled SGD around a small image classifier."""
import torch
import torch.nn.functional as F
from torch import nn


class Lars(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05, trust=0.02, weight_decay=1e-4):
        super().__init__(params, dict(lr=lr, trust=trust, weight_decay=weight_decay))

    def _ratio(self, p, group):
        w = p.norm()
        g = p.grad.norm()
        denom = g + group["weight_decay"] * w + 1e-9
        return group["trust"] * (w / denom).item()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                local_lr = group["lr"] * self._ratio(p, group)
                p.add_(p.grad + group["weight_decay"] * p, alpha=-local_lr)


class SmallNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.GroupNorm(4, 16),
            nn.SiLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.GroupNorm(4, 32),
            nn.SiLU(),
        )
        self.head = nn.Linear(32, classes)

    def forward(self, img):
        return self.head(self.stem(img).mean(dim=(2, 3)))


def make(device="cuda"):
    net = SmallNet().to(device)
    opt = Lars(net.parameters())

    def step(img, label):
        opt.zero_grad()
        loss = F.cross_entropy(net(img), label, label_smoothing=0.1)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(8, 3, 32, 32, device=device),
                torch.randint(0, 10, (8,), device=device))

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
