import functools

import torch


def build():
    w = torch.randn(16, 16, device="cuda")
    total = torch.zeros((), device="cuda")

    def step(x):
        y = torch.relu(x @ w)
        total.add_(y.mean())
        return y

    return {"fn": step, "inputs": lambda: (torch.randn(8, 16, device="cuda"),), "state": lambda: [total]}


make = build


def _scaled(x, scale, *, shift):
    return x * scale + shift


twice = functools.partial(_scaled, scale=2.0, shift=1.0)


def logged(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner


@torch.no_grad()
@logged
@torch.autocast("cuda", dtype=torch.bfloat16)
def decorated(x, w):
    return x @ w


@torch.inference_mode()
def inference_inputs():
    return torch.randn(8, 16, device="cuda"), torch.randn(16, 16, device="cuda")
