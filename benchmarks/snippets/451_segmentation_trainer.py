"""Segmentation trainer object whose step is driven by an outer loop."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SegTrainer:
    def __init__(self, device):
        self.net = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(),
            nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(),
            nn.Conv2d(12, 4, 1),
        ).to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.running = torch.zeros((), device=device)
        self.history = []

    def step(self, image, target):
        self.opt.zero_grad(set_to_none=True)
        logits = self.net(image)
        loss = F.cross_entropy(logits, target)
        loss.backward()
        self.opt.step()
        self.running.mul_(0.9).add_(loss.detach(), alpha=0.1)
        return loss.detach()

    def report(self, loss):
        value = loss.item()
        self.history.append(value)
        if self.running > 10:
            raise RuntimeError(f"diverged: {self.running:.3f}")
        print("loss", value, "running", float(self.running.cpu()))
        return value

    def state(self):
        return [self.running, *self.net.parameters()]


def make(device="cuda"):
    torch.manual_seed(1)
    trainer = SegTrainer(device)

    def inputs():
        image = torch.randn(2, 3, 16, 16, device=device)
        target = torch.randint(0, 4, (2, 16, 16), device=device)
        return image, target

    return {"fn": trainer.step, "inputs": inputs, "state": trainer.state, "kind": "training_step"}
