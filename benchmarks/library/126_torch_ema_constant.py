"""torch-ema at a fixed decay, whose average serves as the teacher of the same step."""
# needs: torch-ema
import copy

import torch
from torch_ema import ExponentialMovingAverage


def make(device="cuda"):
    student = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 6)).to(device)
    teacher = copy.deepcopy(student).requires_grad_(False)
    ema = ExponentialMovingAverage(student.parameters(), decay=0.95, use_num_updates=False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        ema.copy_to(teacher.parameters())
        target = teacher(x + 0.05 * torch.randn_like(x)).softmax(-1)
        loss = torch.nn.functional.kl_div(student(x).log_softmax(-1), target, reduction="batchmean")
        loss = loss + 0.1 * student(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(32, 16, device=device),), "kind": "training_step"}
