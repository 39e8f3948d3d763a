"""Lookahead-style training: slow weights absorb the fast ones now and then."""
from functools import wraps

import torch
from torch import nn


def every(n):
    def deco(fn):
        calls = 0

        @wraps(fn)
        def wrapper(*args, **kw):
            nonlocal calls
            calls += 1
            if calls % n == 0:
                return fn(*args, **kw)
            return None
        return wrapper
    return deco


@every(2)
@torch.no_grad()
def absorb(fast, slow, rate=0.5):
    for f, s in zip(fast, slow):
        s.lerp_(f, rate)
        f.copy_(s)


def make(device="cuda"):
    torch.manual_seed(50)
    net = nn.Sequential(nn.Linear(5, 10), nn.Mish(), nn.Linear(10, 1)).to(device)
    fast = list(net.parameters())
    slow = [p.detach().clone() for p in fast]
    opt = torch.optim.SGD(fast, lr=0.2)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.l1_loss(net(x), y)
        loss.backward()
        opt.step()
        absorb(fast, slow)
        return loss.detach()

    def inputs():
        x = torch.randn(16, 5, device=device)
        return x, x.norm(dim=1, keepdim=True)

    return {"fn": step, "inputs": inputs, "state": lambda: fast + slow, "kind": "training_step"}
