"""Self-distillation step with a slowly following teacher."""
import contextlib

import torch
import torch.nn.functional as F
from torch import nn


class Follower:
    def __init__(self, student, teacher, tau, device):
        self.src = list(student.parameters())
        self.dst = list(teacher.parameters())
        self.tau = tau
        self.stream = torch.cuda.Stream() if device == "cuda" else None

    def _lane(self):
        if self.stream is None:
            return contextlib.nullcontext()
        self.stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.stream)

    @torch.no_grad()
    def follow(self):
        with self._lane():
            torch._foreach_lerp_(self.dst, self.src, self.tau)


def tower():
    return nn.Sequential(nn.Linear(20, 40), nn.LayerNorm(40), nn.GELU(), nn.Linear(40, 16))


def make(device="cuda"):
    student, teacher = tower().to(device), tower().to(device)
    teacher.load_state_dict(student.state_dict())
    teacher.requires_grad_(False)
    follower = Follower(student, teacher, 0.05, device)
    opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)

    def step(a, b):
        opt.zero_grad()
        target = F.softmax(teacher(a) / 0.5, dim=-1)
        loss = F.cross_entropy(student(b), target)
        loss.backward()
        opt.step()
        follower.follow()
        return loss.detach()

    def inputs():
        x = torch.randn(24, 20, device=device)
        return x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)

    return {"fn": step, "inputs": inputs,
            "state": lambda: follower.src + follower.dst, "kind": "training_step"}
