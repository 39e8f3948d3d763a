"""Masked token modelling on continuous frames."""
import torch
import torch.nn.functional as F
from torch import nn


def corrupt(frames, rate):
    hide = torch.rand(frames.shape[:2], device=frames.device) < rate
    seen = frames.clone()
    seen[hide] = 0.0
    return seen, hide


def safe_log_mask(lengths, total):
    pos = torch.arange(total, device=lengths.device)
    pad = pos[None, :] >= lengths[:, None]
    bias = torch.zeros(pad.shape, device=lengths.device)
    bias[pad] = -1e4
    return bias, pad


class Filler(nn.Module):
    def __init__(self, dim=20, hid=32):
        super().__init__()
        self.inp = nn.Linear(dim, hid)
        self.q = nn.Linear(hid, hid)
        self.out = nn.Linear(hid, dim)

    def forward(self, x, bias):
        h = F.gelu(self.inp(x))
        att = (self.q(h) @ h.transpose(1, 2) / 6.0 + bias[:, None]).softmax(-1)
        return self.out(h + att @ h)


def make(device="cuda"):
    net = Filler().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(frames, lengths):
        seen, hide = corrupt(frames, 0.3)
        bias, pad = safe_log_mask(lengths, frames.shape[1])
        err = (net(seen, bias) - frames).square().mean(-1)
        err[pad] = 0
        loss = (err * hide).sum() / hide.sum().clamp(min=1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(4, 15, 20, device=device),
                torch.randint(5, 16, (4,), device=device))

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
