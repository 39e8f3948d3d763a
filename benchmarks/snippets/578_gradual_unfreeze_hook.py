"""Transfer learning where the backbone gradient is faded in through tensor hooks."""
import torch
from torch import nn


class FadeIn:
    def __init__(self, horizon):
        self.horizon = horizon
        self.calls = 0

    def __call__(self, grad):
        self.calls += 1
        return grad * min(1.0, self.calls / self.horizon)

    def attach(self, module):
        for p in module.parameters():
            p.register_hook(self)


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(10, 10, bias=False)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        return self.head(torch.relu(self.backbone(x)))


def make(device="cuda"):
    torch.manual_seed(47)
    net = Transfer().to(device)
    FadeIn(horizon=20).attach(net.backbone)
    opt = torch.optim.SGD(net.parameters(), lr=0.5)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return torch.randn(16, 10, device=device), torch.randint(0, 3, (16,), device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
