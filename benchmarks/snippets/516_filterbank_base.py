"""Log filterbank front end built on a common base class for spectral features."""
import torch
from torch import nn


class SpectralBase(nn.Module):
    def __init__(self, n_fft=32):
        super().__init__()
        self.n_fft = n_fft
        self.taper = torch.hann_window(n_fft)
        self.gain = nn.Parameter(torch.ones(n_fft // 2 + 1))

    @property
    def taper_here(self):
        return self.taper.to(self.gain.device)

    def power(self, wave):
        frames = wave.unfold(-1, self.n_fft, self.n_fft // 2)
        spec = torch.fft.rfft(frames * self.taper_here, dim=-1)
        return spec.real ** 2 + spec.imag ** 2


class FilterBank(SpectralBase):
    def __init__(self, bands=10, **kw):
        super().__init__(**kw)
        weight = torch.rand(self.n_fft // 2 + 1, bands)
        self.register_buffer("bands", weight / weight.sum(0))

    def forward(self, wave):
        return torch.log(self.power(wave) * self.gain @ self.bands + 1e-6)


def make(device="cuda"):
    torch.manual_seed(20)
    bank = FilterBank().to(device).eval()
    bank.requires_grad_(False)

    def inputs():
        return (torch.randn(3, 320, device=device),)

    return {"fn": bank, "inputs": inputs, "kind": "inference"}
