"""Self-distillation loss with a running centre for the teacher logits."""
import torch
from torch import nn


def busy(t):
    return t.is_cuda and torch.cuda.is_current_stream_capturing()


class CentredLoss(nn.Module):
    def __init__(self, dim, momentum=0.7):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(dim))

    @torch.no_grad()
    def track(self, teacher):
        if busy(teacher):
            return
        self.center.mul_(self.momentum).add_(teacher.mean(0), alpha=1 - self.momentum)

    def forward(self, student, teacher):
        target = ((teacher - self.center) / 0.04).softmax(-1)
        self.track(teacher)
        return -(target * (student / 0.1).log_softmax(-1)).sum(-1).mean()


def make(device="cuda"):
    torch.manual_seed(43)
    net = nn.Linear(9, 6).to(device)
    net.requires_grad_(False)
    criterion = CentredLoss(6).to(device)

    def evaluate(a, b):
        return criterion(net(a), net(b))

    def inputs():
        x = torch.randn(12, 9, device=device)
        return x + 0.1 * torch.randn_like(x), x + 1.0

    return {"fn": evaluate, "inputs": inputs, "state": lambda: [criterion.center], "kind": "training_step"}
