"""Masked frame prediction for audio features."""
import torch
from torch import nn


class MaskedPredictor(nn.Module):
    def __init__(self, bins=40, hidden=48):
        super().__init__()
        self.rnn = nn.GRU(bins, hidden, batch_first=True)
        self.head = nn.Linear(hidden, bins)

    def forward(self, feats):
        h, _ = self.rnn(feats)
        return self.head(h)


def corrupt(feats, prob):
    masked = feats.clone()
    mask = torch.rand(feats.shape[:2], device=feats.device) < prob
    masked[mask] = 0.0
    return masked, mask


def masked_l1(pred, target, mask):
    err = (pred - target).abs().mean(dim=-1)
    err[~mask] = 0.0
    return err.sum() / mask.sum().clamp(min=1)


def make(device="cuda"):
    model = MaskedPredictor().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)

    def step(feats):
        opt.zero_grad()
        masked, mask = corrupt(feats, 0.3)
        loss = masked_l1(model(masked), feats, mask)
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randn(4, 20, 40, device=device),)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
