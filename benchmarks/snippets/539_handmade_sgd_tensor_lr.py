"""Home-grown SGD with Nesterov momentum and a learning rate kept on the device."""
import torch
from torch import nn


class NesterovSGD:
    def __init__(self, params, lr, momentum=0.9):
        self.params = [p for p in params if p.requires_grad]
        device = self.params[0].device
        self.lr = torch.full((), lr, device=device)
        self.momentum = momentum
        self.velocity = [torch.zeros_like(p) for p in self.params]

    def zero(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def update(self):
        for p, v in zip(self.params, self.velocity):
            v.mul_(self.momentum).add_(p.grad)
            direction = p.grad.add(v, alpha=self.momentum)
            p.add_(direction, alpha=-self.lr)


def make(device="cuda"):
    torch.manual_seed(17)
    net = nn.Sequential(nn.Linear(5, 10), nn.ELU(), nn.Linear(10, 2)).to(device)
    opt = NesterovSGD(net.parameters(), lr=0.03)

    def step(x, y):
        opt.zero()
        loss = nn.functional.smooth_l1_loss(net(x), y)
        loss.backward()
        opt.update()
        return loss.detach()

    def inputs():
        return torch.randn(12, 5, device=device), torch.randn(12, 2, device=device)

    return {
        "fn": step,
        "inputs": inputs,
        "state": lambda: [*net.parameters(), *opt.velocity],
        "kind": "training_step",
    }
