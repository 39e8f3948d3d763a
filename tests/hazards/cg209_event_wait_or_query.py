"""event-wait-or-query: the region asks an event or a stream whether the work is done."""

import torch
from torch import nn

DEVICE = "cuda"
side = torch.cuda.Stream()


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 6, 16, device=DEVICE),)


class LayerTimer:
    def __init__(self):
        self.start = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    def __enter__(self):
        self.start.record()
        return self

    def __exit__(self, *exc):
        self.end.record()
        self.end.synchronize()  # CG209

    def milliseconds(self):
        return self.start.elapsed_time(self.end)  # CG209


class BufferPool:
    def __init__(self):
        self.ready = torch.cuda.Event()

    def reuse(self, x):
        self.ready.record()
        return x.clone() if self.ready.query() else x + 0  # CG209


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)

    def forward(self, x):
        return (self.query(x) @ self.key(x).transpose(-1, -2)).softmax(-1) @ x


timer = LayerTimer()
pool = BufferPool()
attention = Attention().to(DEVICE).requires_grad_(False)


def bad_timed_layer(x):
    with timer:
        y = x.relu()
    return y, timer.milliseconds()


def bad_pool_polls(x):
    return pool.reuse(x) * 2


def bad_poll_stream(x):
    y = x * 3
    idle = torch.cuda.current_stream().query()  # CG209
    return y, idle


def bad_wait_for_branch(x):
    done = torch.cuda.Event()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x.exp()
        done.record()
    torch.cuda.current_stream().wait_stream(side)
    wait = done.synchronize
    wait()  # CG209
    return x + y


def good_wait_event(x):
    forked, done = torch.cuda.Event(), torch.cuda.Event()
    forked.record()
    with torch.cuda.stream(side):
        forked.wait()
        y = x.exp()
        done.record(side)
    torch.cuda.current_stream().wait_event(done)
    return x + y


def good_record_only(x):
    timer.start.record()
    y = x.relu()
    timer.end.record()
    return y


def good_query_of_attention(x):
    return attention(x) + attention.query(x)


def good_event_of_this_name(x):
    query = x.flip(-1)
    return (query * x).sum(-1)
