"""Self-supervised step with an online and a slowly moving teacher network."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class MomentumMixin:
    momentum = 0.9

    def build_teacher(self):
        self.teacher = copy.deepcopy(self.student)
        self.teacher.requires_grad_(False)

    @torch.no_grad()
    def update_teacher(self):
        teacher = [p for p in self.teacher.parameters()]
        student = [p.detach() for p in self.student.parameters()]
        torch._foreach_mul_(teacher, self.momentum)
        torch._foreach_add_(teacher, student, alpha=1.0 - self.momentum)


class Trainer(MomentumMixin):
    def __init__(self, device):
        self.student = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to(device)
        self.predictor = nn.Linear(8, 8).to(device)
        self.build_teacher()
        self.opt = torch.optim.SGD([*self.student.parameters(), *self.predictor.parameters()], lr=0.1)

    def __call__(self, view_a, view_b):
        self.opt.zero_grad(set_to_none=True)
        pred = self.predictor(self.student(view_a))
        with torch.no_grad():
            goal = self.teacher(view_b)
        loss = 2 - 2 * F.cosine_similarity(pred, goal).mean()
        loss.backward()
        self.opt.step()
        self.update_teacher()
        return loss.detach()

    def tensors(self):
        return [*self.student.parameters(), *self.predictor.parameters(), *self.teacher.parameters()]


def make(device="cuda"):
    trainer = Trainer(device)

    def inputs():
        return torch.randn(16, 16, device=device), torch.randn(16, 16, device=device)

    return {"fn": trainer, "inputs": inputs, "state": trainer.tensors, "kind": "training_step"}
