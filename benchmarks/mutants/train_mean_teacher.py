"""Self-distillation: a bfloat16 teacher follows the student, its outputs are centred."""
import torch
import torch.nn.functional as F
from torch import nn


class Student(nn.Module):
    def __init__(self, dims=(24, 64, 32)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:], strict=False))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.gelu(layer(x))
        return self.layers[-1](x)


class Teacher:
    """Slow float32 copy of the student and the half-precision weights that the forward uses."""

    def __init__(self, student):
        self.slow = [p.detach().clone() for p in student.parameters()]
        self.half = [p.to(torch.bfloat16) for p in self.slow]

    def __call__(self, x):
        x = x.to(torch.bfloat16)
        pairs = list(zip(self.half[::2], self.half[1::2], strict=True))
        for weight, bias in pairs[:-1]:
            x = F.gelu(F.linear(x, weight, bias))
        return F.linear(x, *pairs[-1]).float()

    @torch.no_grad()
    def follow(self, params, decay):
        for slow, fast in zip(self.slow, params, strict=True):
            slow.copy_(decay * slow + (1 - decay) * fast)
        self.sync_half()

    def sync_half(self):
        torch._foreach_copy_(self.half, self.slow)


class Distiller:
    def __init__(self, device, max_decay=0.999):
        self.student = Student().to(device)
        self.teacher = Teacher(self.student)
        self.params = list(self.student.parameters())
        self.max_decay = max_decay
        self.seen = torch.zeros((), device=device)
        self.center = torch.zeros(1, 32, device=device)
        self.opt = torch.optim.AdamW(self.params, lr=1e-2, fused=True, capturable=True)

    @property
    def decay(self):
        return ((1 + self.seen) / (10 + self.seen)).clamp(max=self.max_decay)

    def view(self, x, keep=0.7):
        return x * torch.empty_like(x).bernoulli_(keep) / keep

    @torch.no_grad()
    def targets(self, x):
        out = self.teacher(x)
        soft = ((out - self.center) / 0.1).softmax(-1)
        self.center.mul_(0.8).add_(out.mean(0, keepdim=True), alpha=0.2)
        return soft

    def step(self, x):
        soft = self.targets(x)
        loss = -(soft * (self.student(self.view(x)) / 0.2).log_softmax(-1)).sum(-1).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.seen += 1
        self.teacher.follow(self.params, self.decay)
        return loss.detach()

    def state(self):
        return [*self.params, *self.teacher.slow, self.center]


def make(device="cuda"):
    distiller = Distiller(device)

    def inputs():
        return (torch.randn(32, 24, device=device),)

    return {"fn": distiller.step, "inputs": inputs, "state": distiller.state, "kind": "training_step", "warmup": 3}
