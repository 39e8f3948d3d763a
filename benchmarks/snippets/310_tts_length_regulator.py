"""Text-to-speech decoder that expands phonemes to frames."""
import torch
import torch.nn.functional as F
from torch import nn


class LengthRegulator(nn.Module):
    def __init__(self, max_frames):
        super().__init__()
        self.max_frames = max_frames

    def expand(self, h, dur):
        return torch.repeat_interleave(h, dur, dim=0)

    def forward(self, h, dur):
        rows = []
        for b in range(h.shape[0]):
            frames = self.expand(h[b], dur[b])[: self.max_frames]
            rows.append(F.pad(frames, (0, 0, 0, self.max_frames - frames.shape[0])))
        return torch.stack(rows)


class Acoustic(nn.Module):
    def __init__(self, vocab=40, dim=32, mels=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.dur = nn.Linear(dim, 1)
        self.reg = LengthRegulator(48)
        self.post = nn.Conv1d(dim, mels, 5, padding=2)

    def forward(self, phon):
        h = self.emb(phon)
        dur = self.dur(h).squeeze(-1).exp().round().clamp(1, 6).long()
        frames = self.reg(h, dur)
        return self.post(frames.transpose(1, 2))


def make(device="cuda"):
    tts = Acoustic().to(device).eval()

    @torch.no_grad()
    def synth(phon):
        return tts(phon)

    def inputs():
        return (torch.randint(0, 40, (3, 10), device=device),)

    return {"fn": synth, "inputs": inputs, "kind": "inference"}
