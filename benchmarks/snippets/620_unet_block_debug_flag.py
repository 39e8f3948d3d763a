"""One residual UNet block with optional range checks for development."""
import logging

import torch
import torch.nn as nn

log = logging.getLogger(__name__)
CHECK_RANGES = False


def assert_in_range(name, x, limit=1e4):
    if not CHECK_RANGES:
        return
    peak = x.abs().max().item()
    if peak > limit:
        raise FloatingPointError(f"{name}: {peak}")


class ResBlock(nn.Module):
    verbose = False

    def __init__(self, ch, emb):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * ch)
        self.norm2 = nn.GroupNorm(4, ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, emb):
        h = self.conv1(nn.functional.silu(self.norm1(x)))
        assert_in_range("conv1", h)
        scale, shift = self.emb(emb)[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        if self.verbose:
            print("scale", scale.mean().item(), "shift", shift.mean().item())
        h = self.conv2(nn.functional.silu(h))
        assert_in_range("conv2", h)
        log.debug("block output %s", tuple(h.shape))
        return x + h


def make(device="cuda"):
    block = ResBlock(16, 32).to(device)

    @torch.no_grad()
    def run(x, emb):
        return block(x, emb)

    def inputs():
        return torch.randn(2, 16, 12, 12, device=device), torch.randn(2, 32, device=device)

    return {"fn": run, "inputs": inputs, "kind": "inference"}
