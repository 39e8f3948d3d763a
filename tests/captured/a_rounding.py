"""Steps whose replays differ from eager: by rounding, by little that is wrong, by another path while a stream captures."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Normalises one way in eager and another way while a stream captures, as libraries do that avoid a host read there."""

    def __init__(self, width, eps):
        super().__init__()
        self.inner, self.outer, self.eps = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), eps

    def forward(self, x):
        if torch.cuda.is_current_stream_capturing():
            y = F.layer_norm(x, x.shape[-1:], eps=self.eps)
        else:
            centred = x - x.mean(-1, keepdim=True)
            y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        return x + self.outer(F.gelu(self.inner(y)))


def _net(eps=1e-5, width=64, depth=6):
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width, eps) for _ in range(depth))).cuda()


def _batch(width=64):
    return (torch.randn(16, width, device="cuda"),)


def other_path(device="cuda"):
    net = _net().bfloat16()

    @torch.no_grad()
    def infer(x):
        return net(x.bfloat16())

    return {"fn": infer, "inputs": _batch}


def other_path_trained(device="cuda"):
    net = _net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return {"fn": step, "inputs": _batch}


def other_result(device="cuda"):
    net = _net(eps=0.3)

    @torch.no_grad()
    def infer(x):
        return net(x)

    return {"fn": infer, "inputs": _batch}


class Counted:
    """Calls a network with a factor that Python changes by `rate` from call to call."""

    def __init__(self, rate):
        self.net, self.rate, self.calls = _net(), rate, 0

    @torch.no_grad()
    def __call__(self, x):
        self.calls += 1
        factor = 1.0 + self.rate * self.calls
        return self.net[0].outer(self.net[0].inner(x * factor))


def little_wrong(device="cuda"):
    return {"fn": Counted(2e-6), "inputs": _batch}


def very_little_wrong(device="cuda"):
    return {"fn": Counted(5e-7), "inputs": _batch}


class Averaged:
    """Replaces a tensor by one that differs little, in Python, and reads it in the next call."""

    def __init__(self, rate):
        self.net, self.rate, self.shift = _net(), rate, torch.zeros(64, device="cuda")

    @torch.no_grad()
    def __call__(self, x):
        self.shift = self.shift + self.rate * x.mean(0)
        return self.net[0].inner(x + self.shift)


def little_rebound(device="cuda"):
    return {"fn": Averaged(2e-5), "inputs": _batch}


def recurrent_dropout(device="cuda"):
    torch.manual_seed(0)
    net = nn.LSTM(16, 16, num_layers=2, dropout=0.5).cuda().train()

    def step(x):
        out, _ = net(x)
        loss = out.square().mean()
        loss.backward()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(5, 4, 16, device="cuda"),)}


def seeded_within(device="cuda"):
    made = recurrent_dropout(device)

    def step(x):
        torch.cuda.manual_seed(7)
        return made["fn"](x)

    return {**made, "fn": step}


def seeded_inputs(device="cuda"):
    made = recurrent_dropout(device)

    def batch():
        torch.manual_seed(7)
        return (torch.randn(5, 4, 16, device="cuda"),)

    return {**made, "inputs": batch}
