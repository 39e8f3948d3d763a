"""Streaming speech enhancer: causal convolutions with history, overlap-add tail, level control and a tremolo."""
import math

import torch
from torch import nn


class StreamingConv(nn.Module):
    """Causal convolution that remembers the end of the previous chunk."""

    def __init__(self, batch, cin, cout, kernel, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, kernel, dilation=dilation)
        self.keep = (kernel - 1) * dilation
        self.register_buffer("history", torch.zeros(batch, cin, self.keep))

    def forward(self, x):
        joined = torch.cat([self.history, x], dim=-1)
        self.history.copy_(joined[..., -self.keep :])
        return self.conv(joined)


class OverlapAdd(nn.Module):
    def __init__(self, batch, hop):
        super().__init__()
        self.hop = hop
        self.register_buffer("tail", torch.zeros(batch, hop))
        self.register_buffer("window", torch.hann_window(2 * hop))

    def forward(self, frame):
        frame = frame * self.window
        out = frame[:, : self.hop] + self.tail
        self.tail.copy_(frame[:, self.hop :])
        return out


class LevelControl(nn.Module):
    def __init__(self, target=0.5):
        super().__init__()
        self.target = target
        self.register_buffer("level", torch.ones(()))

    def forward(self, x):
        gain = self.target / (self.level + 0.05)
        self.level.copy_(x.abs().amax())
        return x * gain


class Tremolo(nn.Module):
    def __init__(self, hop, rate=20.0, depth=0.6, samplerate=1000):
        super().__init__()
        self.hop, self.rate, self.depth, self.samplerate = hop, rate, depth, samplerate
        self.register_buffer("clock", torch.zeros(1))
        self.register_buffer("ramp", torch.arange(hop) / samplerate)

    def seconds(self):
        now = self.clock / self.samplerate + self.ramp
        self.clock.add_(self.hop).remainder_(self.samplerate)
        return now

    def forward(self, x):
        swing = torch.sin(2 * math.pi * self.rate * self.seconds())
        return x * (1 - self.depth * (0.5 + 0.5 * swing))


class Enhancer(nn.Module):
    def __init__(self, batch, hop):
        super().__init__()
        self.first = StreamingConv(batch, 1, 12, 5)
        self.second = StreamingConv(batch, 12, 12, 3, dilation=4)
        self.synth = nn.Conv1d(12, 2, 1)
        self.overlap = OverlapAdd(batch, hop)
        self.level = LevelControl()
        self.tremolo = Tremolo(hop)

    @torch.no_grad()
    def forward(self, chunk):
        h = torch.relu(self.first(chunk.unsqueeze(1)))
        h = torch.relu(self.second(h))
        out = self.overlap(self.synth(h).flatten(1))
        return self.tremolo(self.level(out))


def make(device="cuda"):
    torch.manual_seed(105)
    batch, hop = 3, 64
    model = Enhancer(batch, hop).to(device).eval()

    def inputs():
        loudness = torch.empty(1, 1, device=device).uniform_(0.3, 3.0)
        return (loudness * torch.randn(batch, hop, device=device),)

    def state():
        return [model.first.history, model.second.history, model.overlap.tail]

    return {"fn": model, "inputs": inputs, "state": state, "kind": "inference", "warmup": 3}
