"""side-stream-not-forked: work is put on another stream that never waited for the capture stream."""

import torch
from torch import nn

DEVICE = "cuda"
REPEATS = 1 << 19  # the branch needs 64 MiB of its own, which no cached block serves

side = torch.cuda.Stream(priority=-1)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def spectrum(x):
    return x.repeat(REPEATS, 1).sin().sum(0)


def bad_branch_with_join_only(x):
    with torch.cuda.stream(side):  # CG401
        energy = x.square().sum(1)
    logits = x.tanh()
    torch.cuda.current_stream().wait_stream(side)
    return logits * energy[:, None]


def bad_branch_without_any_wait(x):
    with torch.cuda.stream(side):  # CG401
        energy = spectrum(x)
    return x * energy


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((8,), 0.5))
        self.copy_stream = torch.cuda.Stream(priority=-1)

    def image_tower(self, x):
        with torch.cuda.stream(self.copy_stream):  # CG401
            return spectrum(x * self.scale)

    def forward(self, x):
        image = self.image_tower(x)
        text = (x * self.scale).cos()
        torch.cuda.current_stream().wait_stream(self.copy_stream)
        return image + text


towers = TwoTowers().to(DEVICE).requires_grad_(False)


def bad_two_towers(x):
    return towers(x)


def good_fork_and_join(x):
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        energy = x.square().sum(1)
    logits = x.tanh()
    main.wait_stream(side)
    return logits * energy[:, None]


def good_fork_by_event(x):
    ready, done = torch.cuda.Event(), torch.cuda.Event()
    ready.record()
    side.wait_event(ready)
    with torch.cuda.stream(side):
        energy = x.square().sum(1)
        done.record()
    logits = x.tanh()
    torch.cuda.current_stream().wait_event(done)
    return logits * energy[:, None]


def on_side(function, x):
    with torch.cuda.stream(side):
        return function(x)


def good_fork_in_the_caller(x):
    side.wait_stream(torch.cuda.current_stream())
    energy = on_side(torch.sin, x)
    torch.cuda.current_stream().wait_stream(side)
    return energy + x


def good_current_stream_context(x):
    with torch.cuda.stream(torch.cuda.current_stream()):
        energy = x.square()
    with torch.cuda.stream(None):
        return energy.sum(1)
