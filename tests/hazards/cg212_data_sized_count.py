"""data-sized-count: how many different values there are, or their range, decides the size of the result."""

import torch
from torch import nn

DEVICE = "cuda"
CLASSES = 6


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randint(0, CLASSES, (32,), device=DEVICE), torch.randn(32, 4, device=DEVICE))


class Balance(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, CLASSES)

    def load(self, expert):
        return torch.bincount(expert, minlength=CLASSES)  # CG212

    def forward(self, x):
        expert = self.gate(x).argmax(-1)
        return self.load(expert).float().var()

    def counted(self, x):
        expert = self.gate(x).argmax(-1)
        counts = torch.zeros(CLASSES, dtype=torch.long, device=x.device)
        return counts.scatter_add_(0, expert, torch.ones_like(expert)).float().var()


class Vocabulary:
    """Counts words of its own list, with names of torch functions."""

    def __init__(self, words):
        self.words = words

    def unique(self):
        return sorted(set(self.words))

    def bincount(self):
        return {w: self.words.count(w) for w in self.words}


def pool_by_key(values, keys):
    _, inverse = keys.unique(return_inverse=True)  # CG212
    return torch.zeros_like(values).index_add_(0, inverse, values)


balance = Balance().to(DEVICE).requires_grad_(False)
vocabulary = Vocabulary(["a", "b", "a"])


def bad_load_balance(ids, x):
    return balance(x) + ids


def bad_pool_by_key(ids, x):
    return pool_by_key(x, ids)


def bad_run_lengths(ids, x):
    lengths = torch.unique_consecutive(ids, return_counts=True)[1]  # CG212
    return x * lengths.float().mean()


def bad_histograms(ids, x):
    density = torch.histc(x, bins=10)  # CG212
    edges = x.abs().histc(8)  # CG212
    labels = torch.unique(ids)  # CG212
    return density, edges, labels.sum()


def good_scatter_counts(ids, x):
    return balance.counted(x) + ids


def good_histogram_with_range(ids, x):
    return torch.histc(x, bins=10, min=-3, max=3), x.abs().histc(8, 0.0, 4.0), ids + 1


def good_number_of_distinct(ids, x):
    ordered = ids.sort().values
    changes = (ordered[1:] != ordered[:-1]).sum() + 1
    return x * changes, (ids[:, None] == torch.arange(CLASSES, device=ids.device)).sum(0)


def good_words_on_the_host(ids, x):
    return x * len(vocabulary.unique()) + vocabulary.bincount()["a"] + ids[:, None]
