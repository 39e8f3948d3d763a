"""one-hot-inferred: the number of classes is the largest label, which has to be read from the GPU."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import one_hot

DEVICE = "cuda"
CLASSES = 5


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    labels = (torch.arange(20) % CLASSES)[torch.randperm(20)]
    return (labels.to(DEVICE), torch.randn(20, CLASSES, device=DEVICE))


def smooth(labels, eps=0.1):
    return one_hot(labels).float() * (1 - eps) + eps / CLASSES  # CG214


class DiceLoss(nn.Module):
    def __init__(self, encode=F.one_hot):
        super().__init__()
        self.encode = encode

    def forward(self, logits, labels):
        target = F.one_hot(labels).float()  # CG214
        return 1 - (logits.softmax(-1) * target).sum() / target.sum()

    def with_classes(self, logits, labels):
        target = self.encode(labels, logits.shape[-1]).float()
        return 1 - (logits.softmax(-1) * target).sum() / target.sum()


class Encoder:
    """Has a function of the same name that knows its size."""

    def one_hot(self, labels):
        return (labels[:, None] == torch.arange(CLASSES, device=labels.device)).float()


dice = DiceLoss().to(DEVICE)
encoder = Encoder()


def bad_dice(labels, logits):
    return dice(logits, labels)


def bad_label_smoothing(labels, logits):
    return -(smooth(labels) * logits.log_softmax(-1)).sum(-1).mean()


def bad_classes_minus_one(labels, logits):
    best = logits.argmax(-1)
    confusion = F.one_hot(labels, num_classes=-1).T.float()  # CG214
    return confusion @ logits + torch.nn.functional.one_hot(best).sum()  # CG214


def good_dice(labels, logits):
    return dice.with_classes(logits, labels)


def good_number_given(labels, logits):
    target = F.one_hot(labels, CLASSES) + one_hot(labels, num_classes=logits.size(-1))
    return target.float() * logits


def good_own_encoder(labels, logits):
    return encoder.one_hot(labels) * logits


def good_rows_of_identity(labels, logits):
    return torch.eye(CLASSES, device=labels.device)[labels] * logits, F.cross_entropy(logits, labels)
