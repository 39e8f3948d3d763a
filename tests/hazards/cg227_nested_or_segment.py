"""nested-or-segment: ragged data whose sizes live on, or are checked by, the CPU."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

DEVICE = "cuda"
LENGTHS = torch.tensor([3, 5, 4, 4], device=DEVICE)
SEGMENT = torch.tensor([0] * 3 + [1] * 5 + [2] * 4 + [3] * 4, device=DEVICE)


def inputs():
    """Sixteen tokens of four sentences, one after the other."""
    return (torch.randn(16, 8, device=DEVICE),)


def bad_nested_batch(tokens):
    return torch.nested.as_nested_tensor([tokens[:3], tokens[3:8]]).to_padded_tensor(0.0)  # CG227


def to_batch(parts):
    return torch.nested.nested_tensor(parts).to_padded_tensor(-1.0)  # CG227


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, tokens):
        h = self.fc(tokens)
        return to_batch([h[:3], h[3:8], h[8:12], h[12:]])


sentences = Sentences().to(DEVICE).requires_grad_(False)


def bad_ragged_sentences(tokens):
    return sentences(tokens)


def bad_sentence_sums(tokens):
    return torch.segment_reduce(tokens, "sum", lengths=LENGTHS)  # CG227


def good_lengths_taken_on_trust(tokens):
    return torch.segment_reduce(tokens, "sum", lengths=LENGTHS, unsafe=True)


def good_index_add(tokens):
    sums = torch.zeros(4, 8, device=DEVICE).index_add_(0, SEGMENT, tokens)
    return sums / LENGTHS[:, None]


def good_padded_with_fixed_cuts(tokens):
    return pad_sequence([tokens[:3], tokens[3:8], tokens[8:12]], batch_first=True)


def good_nested_python_lists(tokens):
    nested = [[tokens[:4], tokens[4:8]], [tokens[8:12], tokens[12:]]]
    return torch.stack([torch.cat(row) for row in nested])
