"""Audio effect chain: saturation, tremolo and a short echo."""
import math
from time import monotonic as now

import torch


class Oscillator:
    def __init__(self, rate):
        self.rate = rate
        self.start = now()

    def phase(self):
        return (now() - self.start) * self.rate

    def __float__(self):
        return math.sin(2 * math.pi * self.phase())


class Saturate:
    def __init__(self, drive):
        self.drive = drive

    def __call__(self, wav):
        return torch.tanh(self.drive * wav) / math.tanh(self.drive)


class Tremolo:
    def __init__(self, rate, depth):
        self.osc = Oscillator(rate)
        self.depth = depth

    def __call__(self, wav):
        return wav * (1.0 + self.depth * float(self.osc))


class Echo:
    def __init__(self, delay, gain):
        self.delay, self.gain = delay, gain

    def __call__(self, wav):
        tail = torch.nn.functional.pad(wav[:, : -self.delay], (self.delay, 0))
        return wav + self.gain * tail


def make(device="cuda"):
    chain = [Saturate(2.0), Tremolo(37.0, 0.8), Echo(120, 0.4)]

    def process(wav):
        for effect in chain:
            wav = effect(wav)
        return wav, wav.abs().amax(dim=-1)

    def inputs():
        return (torch.randn(2, 1024, device=device),)

    return {"fn": process, "inputs": inputs, "kind": "inference"}
