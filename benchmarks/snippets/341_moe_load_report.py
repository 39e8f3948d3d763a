"""Mixture-of-experts layer with an auxiliary balance term."""
import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = experts

    def balance(self, choice, prob):
        count = torch.bincount(choice.flatten(), minlength=self.experts)
        frac = count.to(prob.dtype) / choice.numel()
        return self.experts * (frac * prob.mean(0)).sum()

    def forward(self, x):
        prob = self.gate(x).softmax(-1)
        weight, choice = prob.topk(2, dim=-1)
        return weight / weight.sum(-1, keepdim=True), choice, self.balance(choice, prob)


class MoE(nn.Module):
    def __init__(self, dim=24, experts=4, hidden=32):
        super().__init__()
        self.router = Router(dim, experts)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) * 0.1)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) * 0.1)

    def forward(self, x):
        weight, choice, aux = self.router(x)
        h = torch.einsum("nd,edh->neh", x, self.w1).relu()
        every = torch.einsum("neh,ehd->ned", h, self.w2)
        picked = every.gather(1, choice.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
        return (picked * weight.unsqueeze(-1)).sum(1), aux


def make(device="cuda"):
    moe = MoE().to(device)
    ps = list(moe.parameters())

    def step(x, target):
        y, aux = moe(x)
        loss = nn.functional.mse_loss(y, target) + 0.01 * aux
        for p, g in zip(ps, torch.autograd.grad(loss, ps)):
            p.data.sub_(0.1 * g)
        return loss.detach()

    def inputs():
        return torch.randn(40, 24, device=device), torch.randn(40, 24, device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: ps, "kind": "training_step"}
