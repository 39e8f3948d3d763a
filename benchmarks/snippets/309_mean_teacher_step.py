"""Mean-teacher consistency step with dropout in both networks."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class MeanTeacher:
    def __init__(self, student, decay):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.decay = decay
        self.s = list(student.parameters())
        self.t = list(self.teacher.parameters())
        self.opt = torch.optim.SGD(self.s, lr=0.05)
        self.seen = torch.zeros((), device=self.s[0].device)
        self.loss_avg = torch.zeros((), device=self.s[0].device)

    @torch.no_grad()
    def pull(self):
        torch._foreach_mul_(self.t, self.decay)
        torch._foreach_add_(self.t, self.s, alpha=1 - self.decay)

    @torch.no_grad()
    def track(self, loss):
        self.seen += 1
        self.loss_avg += (loss - self.loss_avg) / self.seen

    def step(self, x, y, u):
        self.opt.zero_grad()
        with torch.no_grad():
            soft = self.teacher(u).softmax(-1)
        loss = F.cross_entropy(self.student(x), y)
        loss = loss + 0.5 * F.mse_loss(self.student(u).softmax(-1), soft)
        loss.backward()
        self.opt.step()
        self.pull()
        self.track(loss.detach())
        return loss.detach(), self.loss_avg.clone()


def make(device="cuda"):
    net = nn.Sequential(nn.Linear(14, 40), nn.ReLU(), nn.Dropout(0.2), nn.Linear(40, 4)).to(device)
    mt = MeanTeacher(net.train(), 0.95)

    def inputs():
        return (torch.randn(16, 14, device=device), torch.randint(0, 4, (16,), device=device),
                torch.randn(32, 14, device=device))

    return {"fn": mt.step, "inputs": inputs,
            "state": lambda: mt.s + mt.t + [mt.seen, mt.loss_avg], "kind": "training_step"}
