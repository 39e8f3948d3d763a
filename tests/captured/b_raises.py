import ctypes
import os
import re
import time

import torch


def hang(x):
    while True:
        time.sleep(1)


def busy(x):
    re.match(r"(a+)+$", "a" * 60 + "b")
    return x


def gpu_spin(x):
    torch.cuda._sleep(40_000_000_000)
    return x.sum() * 2


def segfault(x):
    ctypes.string_at(0)


def segfault_in_capture(x):
    if torch.cuda.is_current_stream_capturing():
        ctypes.string_at(0)
    return x * 2


def raises_in_capture(x):
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("not today")
    return x * 2


def hangs_in_capture(x):
    while torch.cuda.is_current_stream_capturing():
        time.sleep(0.1)
    return x * 2


class Third:
    def __init__(self):
        self.n = 0

    def step(self, x):
        self.n += 1
        if self.n == 3:
            raise KeyError("third")
        return x * self.n


def recursion(x):
    return recursion(x + 1)


def out_of_memory(x):
    return torch.empty(200 << 30, dtype=torch.uint8, device=x.device)


def device_assert(x, i):
    return x[i + 1000]


class Walk:
    """In eager the position is reset every fourth call; in a graph it runs away."""

    def __init__(self):
        self.table = torch.randn(5, 16, device="cuda")
        self.pos = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.t = 0

    def step(self, x):
        if self.t % 4 == 0:
            self.pos.zero_()
        y = x + self.table[self.pos]
        self.pos += 1
        self.t += 1
        return y


def sleeps_a_little(x):
    time.sleep(0.2)
    return x * 2


def broken_inputs():
    raise ValueError("no data")


def changing_inputs():
    changing_inputs.n = getattr(changing_inputs, "n", 7) + 1
    return (torch.randn(changing_inputs.n, 16, device="cuda"),)


_held = []


def held_inputs():
    if not _held:
        _held.append(torch.empty(8, 16, device="cuda"))
    return (_held[0].normal_(),)


def constant_inputs():
    return (torch.ones(8, 16, device="cuda"),)


def expanded_inputs():
    return (torch.randn(1, 16, device="cuda").expand(8, 16),)


def transposed_inputs():
    return (torch.randn(16, 8, device="cuda").t(),)


def shared_inputs():
    x = torch.randn(8, 16, device="cuda")
    return x, x


def add_in_place(x, y):
    x.mul_(2)
    return x + y


def consumes(x):
    x.mul_(2).add_(1)
    return x.sum()


def double(x):
    return x * 2


def none_inputs():
    return None
