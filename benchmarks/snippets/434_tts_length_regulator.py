"""Duration-based expansion of phoneme states to acoustic frames."""
import torch
import torch.nn as nn


def build_regulator(max_frames):
    def expand(states, durations):
        rows = []
        for s, d in zip(states, durations):
            frames = torch.repeat_interleave(s, d, dim=0)
            rows.append(frames.mean(0))
        return torch.stack(rows)

    def coverage(durations):
        return durations.sum(-1).clamp(max=max_frames) / max_frames

    return expand, coverage


class Acoustic(nn.Module):
    def __init__(self, phones=30, dim=16):
        super().__init__()
        self.emb = nn.Embedding(phones, dim)
        self.dur = nn.Linear(dim, 1)
        self.mel = nn.Linear(dim, 20)
        self.expand, self.coverage = build_regulator(64)

    def durations(self, h):
        return self.dur(h).squeeze(-1).exp().round().clamp(1, 6).long()

    def forward(self, ids):
        h = self.emb(ids)
        d = self.durations(h)
        pooled = self.expand(h, d)
        return self.mel(pooled), self.coverage(d)


def make(device="cuda"):
    torch.manual_seed(38)
    model = Acoustic().to(device).eval()

    @torch.no_grad()
    def synth(ids):
        return model(ids)

    return {"fn": synth, "inputs": lambda: (torch.randint(0, 30, (3, 10), device=device),), "kind": "inference"}
