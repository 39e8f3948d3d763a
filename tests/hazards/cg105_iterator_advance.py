"""iterator-advance: an iterator moves on once, at capture, and every replay works on that item."""

import itertools

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def batches():
    for index in itertools.count():
        yield torch.full((4, 8), float(index), device=DEVICE)


def halves(tensors):
    for each in tensors:
        yield each / 2


class Curriculum(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.weights = itertools.cycle([0.1, 1.0, 5.0])

    def next_weight(self):
        return next(self.weights)  # CG105

    def forward(self, x):
        return self.net(x) * self.next_weight()


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        x = x.to(next(self.parameters()).dtype)
        first = next(iter(self.layers))
        for index, layer in enumerate(self.layers):
            x = layer(x) + index
        return first(x)


curriculum = Curriculum().to(DEVICE).requires_grad_(False)
tower = Tower().to(DEVICE).requires_grad_(False)
loader = iter(batches())
shifts = iter(range(1, 1000))


def bad_next_batch(x):
    batch = next(loader)  # CG105
    return (x - batch).square().mean()


def bad_cycled_weight(x):
    return curriculum(x)


def bad_slice_of_iterator(x):
    first, second = itertools.islice(shifts, 2)  # CG105
    return x * first + second


def good_batch_as_argument(x):
    return x.square().mean()


def good_fresh_iterators(x):
    return tower(x)


def good_generator_made_inside(x):
    total = torch.zeros_like(x)
    for half in halves([x, x.tanh()]):
        total = total + half
    pairs = iter([x, total])
    return next(pairs) * next(pairs)


def good_search_with_default(x):
    wide = next((layer for layer in tower.layers if layer.out_features == 8), None)
    return wide(x)
