"""Fast Griffin-Lim phase recovery with a fixed number of iterations."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class StftConfig:
    n_fft: int = 64
    hop: int = 16
    iterations: int = 3
    momentum: float = 0.9


class Transform:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.window = torch.hann_window(cfg.n_fft, device=device)

    def analyse(self, wave):
        return torch.stft(wave, self.cfg.n_fft, self.cfg.hop, window=self.window, return_complex=True)

    def synthesise(self, spec, length):
        return torch.istft(spec, self.cfg.n_fft, self.cfg.hop, window=self.window, length=length)


def griffin_lim(tr, magnitude, length):
    angles = torch.ones_like(magnitude, dtype=torch.complex64)
    previous = torch.zeros_like(angles)
    for _ in range(tr.cfg.iterations):
        rebuilt = tr.analyse(tr.synthesise(magnitude * angles, length))
        update = rebuilt - previous * (tr.cfg.momentum / (1 + tr.cfg.momentum))
        angles = update / (update.abs() + 1e-8)
        previous = rebuilt
    return tr.synthesise(magnitude * angles, length)


def make(device="cuda"):
    tr = Transform(StftConfig(), device)

    def vocode(log_magnitude):
        return griffin_lim(tr, log_magnitude.exp(), 16 * 20)

    def inputs():
        return (torch.randn(2, 33, 21, device=device) * 0.3,)

    return {"fn": vocode, "inputs": inputs, "kind": "inference"}
