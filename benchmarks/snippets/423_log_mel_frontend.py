"""Log-mel frontend with per-utterance normalisation and a small classifier."""
import math

import torch
import torch.nn as nn


def mel_filters(bins, mels, rate=16000):
    top = 2595 * math.log10(1 + rate / 2 / 700)
    edges = [700 * (10 ** (top * i / (mels + 1) / 2595) - 1) for i in range(mels + 2)]
    freq = torch.linspace(0, rate / 2, bins)
    rows = []
    for lo, mid, hi in zip(edges, edges[1:], edges[2:]):
        up, down = (freq - lo) / (mid - lo), (hi - freq) / (hi - mid)
        rows.append(torch.minimum(up, down).clamp_min(0))
    return torch.stack(rows, dim=1)


class LogMel(nn.Module):
    def __init__(self, n_fft=128, hop=64, mels=20):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("fb", mel_filters(n_fft // 2 + 1, mels))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, center=False, return_complex=True)
        power = spec.abs().square().transpose(1, 2)
        mel = (power @ self.fb).clamp_min(1e-5).log()
        return (mel - mel.mean(1, keepdim=True)) / (mel.std(1, keepdim=True) + 1e-3)


def make(device="cuda"):
    torch.manual_seed(19)
    front = LogMel().to(device)
    back = nn.Linear(20, 6).to(device)

    @torch.no_grad()
    def classify(wave):
        return back(front(wave).amax(dim=1))

    return {"fn": classify, "inputs": lambda: (torch.randn(3, 1600, device=device),), "kind": "inference"}
