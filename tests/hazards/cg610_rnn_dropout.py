"""rnn-dropout: a recurrent layer with dropout between its layers, in training mode."""

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(5, 4, 16, device=DEVICE),)


class Tagger(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.rnn = nn.LSTM(16, 32, num_layers=2, dropout=dropout, bidirectional=True)  # CG610
        self.head = nn.Linear(64, 7)

    def encode(self, x):
        return self.rnn(x)[0]  # CG610

    def forward(self, x):
        return self.head(self.encode(x))


class PlainTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(16, 32, num_layers=2, dropout=0.0)

    def forward(self, x):
        return F.dropout(self.rnn(x)[0], 0.2, self.training)


class EvaluatedTagger(nn.Module):
    """A frozen encoder, always in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(16, 32, num_layers=3, dropout=0.3).eval()

    def train(self, mode=True):
        super().train(mode)
        self.rnn.eval()
        return self

    def forward(self, x):
        return self.rnn(x)[0]


class Stacked(nn.Module):
    """The same mathematics: one recurrent layer at a time and dropout between them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.LSTM(16, 32), nn.LSTM(32, 32)])
        self.dropout = nn.Dropout(0.3)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x, _state = layer(self.dropout(x) if number else x)
        return x


tagger = Tagger(0.3).to(DEVICE).requires_grad_(False)
decoder = nn.GRU(16, 16, 3, dropout=0.1).to(DEVICE).requires_grad_(False)  # CG610
elman = nn.RNN(16, 16, num_layers=2, nonlinearity="relu", dropout=0.5).to(DEVICE).requires_grad_(False)  # CG610
plain_tagger = PlainTagger().to(DEVICE).requires_grad_(False)
evaluated = EvaluatedTagger().to(DEVICE).requires_grad_(False)
stacked = Stacked().to(DEVICE).requires_grad_(False)


def bad_tagger_in_training(x):
    return tagger(x)


def bad_decoder_of_three_layers(x):
    out, hidden = decoder(x)  # CG610
    return out.softmax(-1), hidden


def bad_elman_network(x):
    return elman(x.relu())[1]  # CG610


def good_dropout_zero_inside(x):
    return plain_tagger(x)


def good_evaluation_mode(x):
    return evaluated(x)


def good_dropout_between_layers(x):
    return stacked(x)
