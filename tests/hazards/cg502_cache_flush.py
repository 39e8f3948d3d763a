"""cache-flush: the allocator's cache, its statistics or Python's garbage are cleared while the region is captured."""

import gc

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def bad_empty_cache_between_layers(x):
    hidden = x.tanh()
    out = hidden.square()
    del hidden
    torch.cuda.empty_cache()  # CG502
    return out


def free_memory():
    gc.collect()  # CG502
    torch.cuda.empty_cache()  # CG502


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((8,), 0.5))

    def forward(self, x):
        out = (x * self.scale).relu()
        free_memory()
        return out


stage = Stage().to(DEVICE).requires_grad_(False)


def bad_clean_up_after_each_stage(x):
    return stage(stage(x))


def measured(function):
    def wrapper(x):
        torch.cuda.reset_peak_memory_stats()  # CG502
        return function(x)

    return wrapper


@measured
def bad_peak_statistics(x):
    return x.softmax(-1)


def good_tensor_freed(x):
    hidden = x.tanh()
    out = hidden.square()
    del hidden
    return out


def good_memory_query(x):
    out = x.softmax(-1)
    torch.cuda.memory_allocated()
    torch.cuda.mem_get_info()
    return out


class PageTable:
    def __init__(self):
        self.rows = torch.ones(4, 8, device=DEVICE)

    def empty_cache(self):
        self.rows.zero_()

    def collect(self, x):
        self.rows.add_(x)
        return self.rows.clone()


pages = PageTable()


def good_methods_of_those_names(x):
    pages.empty_cache()
    return pages.collect(x)


def train(function, steps):
    for _ in range(steps):
        function(*inputs())
        free_memory()


def good_flushed_by_the_caller_only(x):
    return x.relu() + 1
