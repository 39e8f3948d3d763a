import time

import torch


def atomics(x, i):
    return torch.zeros(4, device=x.device).index_add_(0, i, x)


def clock(x):
    return x * (time.time_ns() % 1000)


def nan(x):
    return x.log(), x / 0, -x.abs() / 0


def integers(x):
    return x.argmax(-1), (x * 100).to(torch.int32), (x > 0), x.to(torch.uint8)


def complex_(x):
    return torch.view_as_complex(x.view(8, 8, 2)) * 1j


def float8(x):
    return x.to(torch.float8_e4m3fn), x.to(torch.float8_e5m2), x.half(), x.double()


def sparse(x):
    return x.relu().to_sparse()


def sparse_made(x):
    i = torch.arange(8, device=x.device)
    return torch.sparse_coo_tensor(torch.stack([i, i]), x[:, 0], (8, 8), check_invariants=False)


def empty(x):
    return x * 2, x.sum(), x[:0]


def aliases(x):
    return x, x.view(-1), x[0], x.t()


def huge_int(x):
    return {"n": 2**70, "t": x + 1, "f": float("nan")}


class Views:
    def __init__(self):
        self.weight = torch.nn.Parameter(torch.randn(16, 16, device="cuda"))
        self.out = torch.empty(8, 16, device="cuda")

    @torch.no_grad()
    def step(self, x):
        self.weight.mul_(0.9)
        torch.mm(x, self.weight, out=self.out)
        return self.weight.view(-1), self.weight[0], self.out


class Count:
    def __init__(self):
        self.n = 0

    def step(self, x):
        self.n += 1
        return x * self.n


def branch(x):
    if (x > 0).any():
        return x * 2
    return x


def never_seen(x):
    try:
        return x * x.max().item()
    except Exception:
        return x
