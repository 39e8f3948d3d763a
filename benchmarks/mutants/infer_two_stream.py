"""Two encoders on two streams, forked and joined, with a running background kept up to date on a third."""
import contextlib

import torch
from torch import nn


class Lane:
    """Side stream that is forked from the current stream on entry and joined by the caller."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream() if device == "cuda" else None

    @contextlib.contextmanager
    def fork(self):
        if self.stream is None:
            yield
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield

    def join(self):
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)


class Background(nn.Module):
    """Slow mean of the frames."""

    def __init__(self, batch, pixels, lane, rate=0.2):
        super().__init__()
        self.lane, self.rate = lane, rate
        self.register_buffer("mean", torch.zeros(batch, pixels))

    def update(self, frame):
        self.mean.lerp_(frame, self.rate)

    def refresh(self, frame):
        with self.lane.fork():
            self.update(frame)
        self.lane.join()


class TwoStreamEncoder(nn.Module):
    def __init__(self, batch, pixels, words, lane, upkeep, dim=32):
        super().__init__()
        self.lane = lane
        self.background = Background(batch, pixels, upkeep)
        self.frame = nn.Sequential(nn.Linear(pixels, 48), nn.GELU(), nn.Linear(48, dim))
        self.words = nn.EmbeddingBag(words, dim, mode="mean")
        self.text = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.fuse = nn.Linear(2 * dim, 8)

    @torch.no_grad()
    def forward(self, frame, tokens):
        self.background.refresh(frame)
        with self.lane.fork():
            text = self.text(self.words(tokens))
        seen = self.frame(frame - self.background.mean)
        self.lane.join()
        return self.fuse(torch.cat([seen, text], dim=-1))


def make(device="cuda"):
    torch.manual_seed(109)
    batch, pixels, words = 5, 60, 90
    model = TwoStreamEncoder(batch, pixels, words, Lane(device), Lane(device)).to(device).eval()

    def inputs():
        return torch.randn(batch, pixels, device=device) + 1, torch.randint(0, words, (batch, 6), device=device)

    return {
        "fn": model,
        "inputs": inputs,
        "state": lambda: [model.background.mean],
        "kind": "inference",
        "warmup": 3,
    }
