"""tensor-formatting: a GPU tensor is turned into text in the region."""

import logging
import warnings

import torch
from torch import nn

DEVICE = "cuda"
logger = logging.getLogger("train")
logger.setLevel(logging.INFO)
logger.addHandler(logging.NullHandler())
logger.propagate = False


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(8, 4, device=DEVICE), torch.randn(8, device=DEVICE))


def watch(name):
    def decorate(function):
        def wrapper(*args):
            out = function(*args)
            logger.info(f"{name}: {out}")  # CG204
            return out

        return wrapper

    return decorate


class Stats:
    def line(self, key, value):
        return key + " " + str(value)  # CG204


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
        self.stats = Stats()

    def forward(self, x, y):
        loss = (self.fc(x).squeeze(-1) - y).abs().mean()
        return loss, self.stats.line("loss", loss)


head = Head().to(DEVICE).requires_grad_(False)


def bad_print_loss(x, y):
    loss = (x.sum(-1) - y).pow(2).mean()
    print("loss", loss)  # CG204
    return loss


@watch("residual")
def bad_watched_residual(x, y):
    return x.sum(-1) - y


def bad_stats_line(x, y):
    return head(x, y)


def bad_formatted_values(x, y):
    peak = x.abs().max()
    text = f"peak {peak:.3f} of {len(x)}"  # CG204
    text += "mean %s" % y.mean()  # CG204
    text += "{:.2f}".format(y.sum())  # CG204
    text += repr(peak)  # CG204
    if x.shape[0] < 16:
        warnings.warn(f"small batch {y}", stacklevel=2)  # CG204
    return peak + len(text)


def good_text_about_the_shape(x, y):
    label = f"{tuple(x.shape)} {x.dtype} on {x.device.type}, {y.dim()} dims"
    with torch.profiler.record_function("residual %s" % label):
        return x.sum(-1) - y + len(str(x.device))


def good_message_of_a_failed_check(x, y):
    assert x.dim() == 2, f"expected a batch, got {x}"
    if x.shape[0] != y.shape[0]:
        raise ValueError(f"{x} and {y} do not match")
    return x.sum(-1) * y


def good_formatted_names(x, y):
    parts = {f"layer_{i}": row for i, row in enumerate(x)}
    key = "layer_{}".format(len(parts) - 1)
    return parts[key].sum() + y


def good_return_instead_of_print(x, y):
    residual = x.sum(-1) - y
    return residual.pow(2).mean(), residual
