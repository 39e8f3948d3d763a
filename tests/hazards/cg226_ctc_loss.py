"""ctc-loss: CTC copies targets or lengths to the CPU."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import ctc_loss as connectionist_loss

DEVICE = "cuda"
FRAMES = torch.full((4,), 16, device=DEVICE)
LABELS = torch.full((4,), 5, device=DEVICE)


def inputs():
    """Logits of 16 frames, 4 speakers and 20 symbols, and their transcripts."""
    return torch.randn(16, 4, 20, device=DEVICE), torch.randint(1, 20, (4, 5), device=DEVICE)


def bad_alignment_loss(logits, targets):
    return F.ctc_loss(logits.log_softmax(-1), targets, FRAMES, LABELS)  # CG226


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(20, 20)
        self.criterion = nn.CTCLoss(zero_infinity=True)

    def loss(self, logits, targets):
        return self.criterion(logits.log_softmax(-1), targets, FRAMES, LABELS)  # CG226

    def forward(self, features, targets):
        return self.loss(self.out(features), targets)


recogniser = Recogniser().to(DEVICE).requires_grad_(False)


def bad_recogniser_step(features, targets):
    return recogniser(features, targets)


def bad_lengths_as_numbers(logits, targets):
    return connectionist_loss(logits.log_softmax(-1), targets, (16,) * 4, (5,) * 4)  # CG226


class Encoder(nn.Module):
    """The criterion belongs to it, the loss is taken after the replay."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(20, 20)
        self.criterion = nn.CTCLoss()
        self.ctc_weight = 0.3

    def forward(self, features):
        return self.out(features).log_softmax(-1)


encoder = Encoder().to(DEVICE).requires_grad_(False)


def good_graph_ends_at_log_probabilities(features, targets):
    return encoder(features) * encoder.ctc_weight, targets


class FrameLoss(nn.Module):
    def ctc_loss(self, logits, targets):
        return F.cross_entropy(logits[:5].flatten(0, 1), targets.t().flatten())

    def forward(self, logits, targets):
        return self.ctc_loss(logits, targets)


frame_loss = FrameLoss()


def good_frame_loss_of_that_name(logits, targets):
    return frame_loss(logits, targets)


def good_greedy_decoding(logits, targets):
    best = logits.argmax(-1)
    repeated = torch.zeros_like(best, dtype=torch.bool)
    repeated[1:] = best[1:] == best[:-1]
    return torch.where(repeated, 0, best), targets
