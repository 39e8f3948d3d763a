"""MLP-Mixer block stack with optional activation tracing."""
import torch
import torch.nn as nn

TRACE = False


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim, verbose=False):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channel = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.verbose = verbose

    def _trace(self, tag, x):
        if TRACE:
            print(tag, x.mean().item(), x.std().item())

    def forward(self, x):
        x = x + self.token(self.n1(x).transpose(1, 2)).transpose(1, 2)
        self._trace("token", x)
        x = x + self.channel(self.n2(x))
        if self.verbose:
            bad = (~torch.isfinite(x)).nonzero()
            print("non finite at", bad.tolist())
        self._trace("channel", x)
        return x


def make(device="cuda"):
    torch.manual_seed(2)
    blocks = nn.ModuleList([MixerBlock(16, 24) for _ in range(3)]).to(device)

    def forward(x):
        with torch.no_grad():
            for blk in blocks:
                x = blk(x)
            return x.mean(dim=1)

    def inputs():
        return (torch.randn(4, 16, 24, device=device),)

    return {"fn": forward, "inputs": inputs, "kind": "inference"}
