"""Log-mel front end with per-utterance normalisation and noise."""
import math

import torch
from torch import nn


def mel_bank(bins, mels, rate):
    def mel(f):
        return 2595.0 * math.log10(1 + f / 700)
    top = mel(rate / 2)
    edges = [700 * (10 ** (top * i / (mels + 1) / 2595) - 1) for i in range(mels + 2)]
    freqs = torch.linspace(0, rate / 2, bins)
    rows = []
    for lo, mid, hi in zip(edges, edges[1:], edges[2:]):
        up = (freqs - lo) / (mid - lo)
        down = (hi - freqs) / (hi - mid)
        rows.append(torch.minimum(up, down).clamp(min=0))
    return torch.stack(rows)


class LogMel(nn.Module):
    def __init__(self, n_fft=256, hop=64, mels=24, rate=8000):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", mel_bank(n_fft // 2 + 1, mels, rate))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        mel = self.bank @ spec.abs().square()
        out = (mel + 1e-5).log()
        return (out - out.mean(-1, keepdim=True)) / (out.std(-1, keepdim=True) + 1e-4)


def make(device="cuda"):
    front = LogMel().to(device)

    def extract(wav):
        with torch.no_grad():
            noisy = wav + 0.01 * torch.randn_like(wav)
            feats = front(noisy)
            hot = torch.quantile(feats.flatten(1), 0.95, dim=1)
        return feats, hot

    return {"fn": extract, "inputs": lambda: (torch.randn(3, 2048, device=device),), "kind": "inference"}
