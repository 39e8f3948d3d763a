"""console-or-file-output: text about Python values is written once, at capture."""

import logging
import os
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"
logger = logging.getLogger("train")
journal = Path(os.devnull).open("w")


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


class Verbose(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)

    def forward(self, x):
        print("forward", tuple(x.shape), x.dtype, file=journal)  # CG108
        return self.net(x)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.logger = nn.Linear(8, 8)
        self.pages = nn.Parameter(torch.zeros(4, 8), requires_grad=False)

    def log(self, x):
        return (x.abs() + 1).log()

    def write(self, x):
        self.pages.copy_(x)

    def forward(self, x):
        self.write(x)
        return self.log(self.logger(x)) + self.pages


verbose = Verbose().to(DEVICE).requires_grad_(False)
gate = Gate().to(DEVICE).requires_grad_(False)


def report(x):
    logger.info("batch of %d rows on %s", x.size(0), x.device)  # CG108


def bad_print_shapes(x):
    return verbose(x)


def bad_log_in_helper(x):
    report(x)
    return x.relu()


def bad_journal_line(x):
    journal.write(f"step with {x.numel()} values\n")  # CG108
    return x.sigmoid()


def good_methods_named_log_and_write(x):
    return gate(x)


def good_logarithms(x):
    return functional.log_softmax(x, -1) + torch.log(x.abs() + 1)


def good_text_that_is_not_printed(x):
    name = f"{'relu' if x.dim() == 2 else 'tanh'}"
    return getattr(torch, name)(x)
