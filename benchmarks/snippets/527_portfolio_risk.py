"""Risk of a softmax portfolio under an exponentially weighted covariance."""
import torch
from torch import nn


def decay_weights(window, half_life, device):
    age = torch.arange(window - 1, -1, -1, device=device, dtype=torch.float32)
    return 0.5 ** (age / half_life)


class RiskModel(nn.Module):
    def __init__(self, assets=6, window=30):
        super().__init__()
        self.allocate = nn.Linear(assets, assets)
        self.window = window

    def covariance(self, returns):
        w = decay_weights(self.window, 10.0, returns.device)
        return torch.cov(returns.T, aweights=w)

    def forward(self, returns):
        weights = self.allocate(returns.mean(0)).softmax(-1)
        sigma = self.covariance(returns)
        variance = weights @ sigma @ weights
        return variance.clamp_min(0).sqrt(), weights


def make(device="cuda"):
    torch.manual_seed(4)
    model = RiskModel().to(device).eval()

    def risk(returns):
        with torch.no_grad():
            return model(returns)

    def inputs():
        return (0.02 * torch.randn(30, 6, device=device),)

    return {"fn": risk, "inputs": inputs, "kind": "inference"}
