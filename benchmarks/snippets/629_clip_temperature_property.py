"""Image-text contrastive step with a learned temperature."""
import torch
import torch.nn.functional as F
from torch import nn


class LearnedScale:
    """Mixin adding a bounded logit scale."""

    def add_scale(self, start=2.0):
        self.log_scale = nn.Parameter(torch.tensor(start))

    @property
    def scale(self):
        return min(float(self.log_scale.exp()), 100.0)


class Aligner(LearnedScale, nn.Module):
    def __init__(self, image_dim=24, text_dim=12, dim=16):
        super().__init__()
        self.image = nn.Linear(image_dim, dim)
        self.text = nn.Linear(text_dim, dim)
        self.add_scale()

    def logits(self, image, text):
        a = F.normalize(self.image(image), dim=-1)
        b = F.normalize(self.text(text), dim=-1)
        return self.scale * a @ b.t()

    def loss(self, image, text):
        logits = self.logits(image, text)
        target = torch.arange(logits.shape[0], device=logits.device)
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


def make(device="cuda"):
    model = Aligner().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(image, text):
        opt.zero_grad()
        loss = model.loss(image, text)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return torch.randn(12, 24, device=device), torch.randn(12, 12, device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
