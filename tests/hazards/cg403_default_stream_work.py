"""default-stream-work: what is launched on the default stream runs once and is missing from the graph."""

import torch
from torch import nn

DEVICE = "cuda"

ema = torch.zeros(4, 8, device=DEVICE)
smooth = torch.zeros(4, 8, device=DEVICE)
squares = torch.zeros(8, device=DEVICE)
positives = torch.zeros(8, device=DEVICE)


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_average_on_default_stream(x):
    out = x.tanh()
    with torch.cuda.stream(torch.cuda.default_stream()):  # CG403
        ema.lerp_(x, 0.1)
    return out + ema


def square_on_main(x):
    main = torch.cuda.default_stream()
    with torch.cuda.stream(main):  # CG403
        squares.addcmul_(x[0], x[0])


def bad_squares_in_a_helper(x):
    square_on_main(x)
    return x.relu() + squares


class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 8))
        self.home = torch.cuda.default_stream()

    def update(self, x):
        before = torch.cuda.current_stream()
        torch.cuda.set_stream(self.home)  # CG403
        self.total.add_(x)
        torch.cuda.set_stream(before)

    def forward(self, x):
        self.update(x)
        return x.sigmoid() + self.total


meter = Meter().to(DEVICE)


def bad_stream_kept_by_a_module(x):
    return meter(x)


def good_average_on_current_stream(x):
    out = x.tanh()
    with torch.cuda.stream(torch.cuda.current_stream()):
        smooth.lerp_(x, 0.1)
    return out + smooth


def good_average_on_forked_stream(x):
    main, side = torch.cuda.current_stream(), torch.cuda.Stream(priority=-1)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        smooth.lerp_(x, 0.1)
    main.wait_stream(side)
    return x.tanh() + smooth


def good_default_stream_only_named(x):
    home = torch.cuda.default_stream()
    positives.add_((x > 0).sum(0))
    return x + positives if home is not None else x


class Sampler:
    def default_stream(self):
        return torch.cuda.current_stream()

    def draw(self, x):
        with torch.cuda.stream(self.default_stream()):
            return x.softmax(-1)


sampler = Sampler()


def good_method_of_that_name(x):
    return sampler.draw(x)
