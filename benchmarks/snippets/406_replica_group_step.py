"""Training step written against a process-group-like interface for one worker."""
import torch
import torch.nn as nn


class LocalGroup:
    world_size = 1

    def synchronize(self):
        return None

    def barrier(self):
        self.synchronize()

    def all_reduce(self, tensors):
        torch._foreach_div_(tensors, float(self.world_size))

    def wait(self):
        return True


class Worker:
    def __init__(self, device, group):
        self.group = group
        self.model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 5)).to(device)
        self.loss = nn.CrossEntropyLoss()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def reduce(self):
        self.group.synchronize()
        self.group.all_reduce([p.grad for p in self.model.parameters()])
        if self.group.wait():
            self.group.barrier()

    def train(self, x, y):
        self.opt.zero_grad()
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.reduce()
        self.opt.step()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(14)
    worker = Worker(device, LocalGroup())

    def inputs():
        return torch.randn(16, 20, device=device), torch.randint(0, 5, (16,), device=device)

    return {"fn": worker.train, "inputs": inputs,
            "state": lambda: list(worker.model.parameters()), "kind": "training_step"}
