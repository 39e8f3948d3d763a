"""Length regulator of a text-to-speech decoder."""
import torch
from torch import nn


class DurationPredictor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.conv(x.t().unsqueeze(0)).squeeze(0).t().relu()).squeeze(-1)


def expand(states, durations):
    return torch.repeat_interleave(states, durations, dim=0)


class LengthRegulator(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.predict = DurationPredictor(dim)

    def forward(self, states, durations):
        guess = self.predict(states)
        return expand(states, durations), (guess - durations.float().log1p()).square().mean()


class Decoder(nn.Module):
    def __init__(self, phones=40, dim=16, mel=20):
        super().__init__()
        self.emb = nn.Embedding(phones, dim)
        self.regulate = LengthRegulator(dim)
        self.mel = nn.Linear(dim, mel)

    def forward(self, ids, durations):
        frames, loss = self.regulate(self.emb(ids), durations)
        return self.mel(frames), loss


def make(device="cuda"):
    model = Decoder().to(device).requires_grad_(False)

    def inputs():
        split = torch.randint(1, 8, (6,), device=device)
        durations = torch.stack([split, 8 - split], dim=1).flatten()
        return torch.randint(0, 40, (12,), device=device), durations

    return {"fn": model, "inputs": inputs, "kind": "inference"}
