"""Oscillator bank with an envelope applied to every block of samples."""
import torch
import torch.nn as nn


class Envelope:
    def __init__(self, attack=1.0, release=0.8):
        self.level = torch.tensor(attack)
        self.release = torch.tensor(release)

    def tick(self):
        self.level.mul_(self.release)
        return self.level

    def apply(self, block):
        return block * self.tick()


class Bank(nn.Module):
    def __init__(self, voices=6, block=64):
        super().__init__()
        freq = torch.linspace(0.01, 0.2, voices)
        self.register_buffer("phase", torch.outer(freq, torch.arange(block).float()) * 6.2832)
        self.mix = nn.Linear(voices, voices)

    def forward(self, amps):
        return torch.einsum("bv,vn->bn", self.mix(amps), self.phase.sin())


class Synth:
    def __init__(self, device):
        self.bank = Bank().to(device).requires_grad_(False)
        self.envelope = Envelope()

    def render(self, amps):
        return self.envelope.apply(self.bank(amps))


def make(device="cuda"):
    torch.manual_seed(69)
    synth = Synth(device)

    def inputs():
        return (torch.randn(4, 6, device=device),)

    return {"fn": synth.render, "inputs": inputs, "kind": "inference"}
