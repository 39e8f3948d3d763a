"""Multi-resolution spectral loss for a tiny vocoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpectralScale(nn.Module):
    def __init__(self, n_fft):
        super().__init__()
        self.n_fft = n_fft
        self.hop = n_fft // 4
        self.register_buffer("window", torch.hann_window(n_fft))

    def magnitude(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        return spec.abs().clamp(min=1e-5)

    def forward(self, a, b):
        ma, mb = self.magnitude(a), self.magnitude(b)
        converge = (ma - mb).norm() / mb.norm()
        return converge + F.l1_loss(ma.log(), mb.log())


class MultiResolution(nn.Module):
    def __init__(self, sizes=(32, 64, 128)):
        super().__init__()
        self.scales = nn.ModuleList(SpectralScale(n) for n in sizes)

    def forward(self, a, b):
        return sum(scale(a, b) for scale in self.scales) / len(self.scales)


def make(device="cuda"):
    vocoder = nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.LeakyReLU(0.1),
                            nn.ConvTranspose1d(16, 1, 16, stride=16)).to(device)
    criterion = MultiResolution().to(device)

    def step(mel, wav):
        fake = vocoder(mel).squeeze(1)
        loss = criterion(fake, wav)
        grads = torch.autograd.grad(loss, list(vocoder.parameters()))
        with torch.no_grad():
            torch._foreach_add_(list(vocoder.parameters()), grads, alpha=-0.01)
        return loss.detach()

    def inputs():
        return torch.randn(2, 8, 32, device=device), torch.randn(2, 512, device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: list(vocoder.parameters()), "kind": "training_step"}
