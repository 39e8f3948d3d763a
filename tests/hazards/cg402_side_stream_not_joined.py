"""side-stream-not-joined: a stream that was forked from the capture stream never comes back."""

import torch

DEVICE = "cuda"

side = torch.cuda.Stream(priority=-1)
history = torch.zeros(4, 8, device=DEVICE)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_background_statistics(x):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # CG402
        history.lerp_(x, 0.1)
    return x.tanh()


def bad_work_after_the_join(x):
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        energy = x.square()
    main.wait_stream(side)
    out = x + energy
    with torch.cuda.stream(side):  # CG402
        history.copy_(energy)
    return out


class Offloader:
    def __init__(self):
        self.stream = torch.cuda.Stream(priority=-1)
        self.slot = torch.zeros(4, 8, device=DEVICE)

    def push(self, t):
        ready = torch.cuda.Event()
        ready.record()
        self.stream.wait_event(ready)
        with torch.cuda.stream(self.stream):  # CG402
            self.slot.copy_(t)

    def drain(self):
        torch.cuda.current_stream().wait_stream(self.stream)


forgetful = Offloader()


def bad_offload_without_drain(x):
    hidden = x.relu()
    forgetful.push(hidden)
    return hidden * 2


class DrainedOffloader(Offloader):
    def push(self, t):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.slot.copy_(t)


drained = DrainedOffloader()


def good_offload_with_drain(x):
    hidden = x.relu()
    drained.push(hidden)
    out = hidden * 2
    drained.drain()
    return out + drained.slot


def good_one_join_for_two_blocks(x):
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        energy = x.square()
    out = x.tanh()
    with torch.cuda.stream(side):
        history.copy_(energy)
    main.wait_stream(side)
    return out + history


def good_join_by_event(x):
    done = torch.cuda.Event()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        energy = x.square()
        done.record()
    done.wait()
    return energy + x


def good_join_through_a_third_stream(x):
    main, third = torch.cuda.current_stream(), torch.cuda.Stream(priority=-1)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        energy = x.square()
    third.wait_stream(side)
    with torch.cuda.stream(third):
        energy = energy + 1
    main.wait_stream(third)
    return energy * x
