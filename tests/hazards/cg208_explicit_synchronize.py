"""explicit-synchronize: the region waits for the device or for a stream."""

import contextlib

import torch
from torch import nn

DEVICE = "cuda"
side = torch.cuda.Stream()


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(8, 16, device=DEVICE),)


@contextlib.contextmanager
def timed(name):
    torch.cuda.synchronize()  # CG208
    yield name
    torch.cuda.synchronize()  # CG208


def synchronised(function):
    def wrapper(*args):
        out = function(*args)
        torch.cuda.current_stream().synchronize()  # CG208
        return out

    return wrapper


class Overlapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def fork(self, x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return self.fc(x)

    def waiting(self, x):
        y = self.fork(x)
        side.synchronize()  # CG208
        torch.cuda.current_stream().wait_stream(side)
        return x + y

    def joined(self, x):
        y = self.fork(x)
        torch.cuda.current_stream().wait_stream(side)
        return x + y


class Averager:
    """Its synchronize() only exchanges tensors on the device."""

    def __init__(self):
        self.after_step = torch.cuda.synchronize

    def synchronize(self, x):
        return x - x.mean(0)


overlapped = Overlapped().to(DEVICE).requires_grad_(False)
averager = Averager()


def bad_timed_section(x):
    with timed("relu"):
        return x.relu()


@synchronised
def bad_wait_after_call(x):
    return x.softmax(-1)


def bad_join_by_waiting(x):
    return overlapped.waiting(x)


def bad_accelerator_wait(x):
    wait = torch.accelerator.synchronize
    y = x * 2
    wait()  # CG208
    return y


def good_join_by_event(x):
    return overlapped.joined(x)


def good_synchronize_of_other_object(x):
    return averager.synchronize(x) + (averager.after_step is not None)


def good_wait_only_outside_capture(x):
    y = x * 2
    if not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
    return y


def good_order_of_streams(x):
    side.wait_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(side)
    return x.square()
