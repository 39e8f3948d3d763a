"""Fine-tune a head on frozen features with a stepped learning rate."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import lr_scheduler as S


class Engine:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr)
        self.sched = S.SequentialLR(
            self.opt,
            [S.LinearLR(self.opt, 0.2, 1.0, 4), S.ExponentialLR(self.opt, 0.5)],
            milestones=[4],
        )

    def _after_backward(self):
        self.opt.step()
        self.sched.step()

    def __call__(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self._after_backward()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(70)
    trunk = nn.Sequential(nn.Linear(12, 32), nn.ReLU()).requires_grad_(False)
    model = nn.Sequential(trunk, nn.Linear(32, 5)).to(device)
    engine = Engine(model, lr=1.0)

    def inputs():
        return torch.randn(16, 12, device=device), torch.randint(0, 5, (16,), device=device)

    return {"fn": engine, "inputs": inputs,
            "state": lambda: list(model[1].parameters()), "kind": "training_step"}
