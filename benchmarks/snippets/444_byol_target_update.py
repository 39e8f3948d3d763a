"""Self-distillation step with a slowly moving teacher."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, o))


class BYOL(nn.Module):
    def __init__(self, tau=0.95):
        super().__init__()
        self.student = mlp(18, 12)
        self.predictor = mlp(12, 12)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.tau = tau

    @torch.no_grad()
    def follow(self):
        torch._foreach_lerp_(list(self.teacher.parameters()), list(self.student.parameters()), 1 - self.tau)

    def forward(self, a, b):
        p = F.normalize(self.predictor(self.student(a)), dim=-1)
        with torch.no_grad():
            z = F.normalize(self.teacher(b), dim=-1)
        return 2 - 2 * (p * z).sum(-1).mean()


def make(device="cuda"):
    torch.manual_seed(15)
    model = BYOL().to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.SGD(trained, lr=0.2)

    def step(a, b):
        opt.zero_grad(set_to_none=True)
        loss = model(a, b) + model(b, a)
        loss.backward()
        opt.step()
        model.follow()
        return loss.detach()

    def inputs():
        x = torch.randn(10, 18, device=device)
        return x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
