"""Keypoint head with peak decoding of fixed size and tracks that are smoothed over the frames."""
import torch
from torch import nn


class PoseHead(nn.Module):
    def __init__(self, joints, ch=16):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, ch, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU()
        )
        self.heat = nn.Conv2d(ch, joints, 1)
        self.offset = nn.Conv2d(ch, 2 * joints, 1)

    def forward(self, image):
        h = self.stem(image)
        return 4 * self.heat(h), torch.tanh(self.offset(h))


def decode_peaks(heat, offset, peaks):
    """Sub-pixel position and confidence of every joint from its best cells."""
    joints, width = heat.shape[1], heat.shape[-1]
    score, cell = heat.flatten(2).topk(peaks, dim=-1)
    dx, dy = (o.flatten(2).gather(2, cell) for o in offset.split(joints, dim=1))
    x = (cell % width) + dx
    y = cell.div(width, rounding_mode="floor") + dy
    share = score.softmax(-1)
    xy = torch.stack([(x * share).sum(-1), (y * share).sum(-1)], dim=-1)
    return xy, score[..., 0].sigmoid()


class Smoother(nn.Module):
    """Plain mean at first, then an exponential one."""

    def __init__(self, batch, joints, floor=0.02):
        super().__init__()
        self.floor = floor
        self.register_buffer("track", torch.zeros(batch, joints, 2))
        self.register_buffer("frames", torch.zeros(()))

    def rate(self):
        self.frames.add_(1)
        return self.frames.reciprocal().clamp(min=self.floor)

    def forward(self, xy):
        self.track.lerp_(xy, self.rate())
        return self.track.clone()


class PoseEstimator(nn.Module):
    def __init__(self, batch, joints=7, peaks=4, keep=5):
        super().__init__()
        self.head = PoseHead(joints)
        self.smoother = Smoother(batch, joints)
        self.peaks, self.keep = peaks, keep

    @torch.no_grad()
    def forward(self, image):
        heat, offset = self.head(image)
        xy, confidence = decode_peaks(heat, offset, self.peaks)
        smooth = self.smoother(xy)
        best, joint = confidence.topk(self.keep, dim=-1)
        chosen = smooth.gather(1, joint.unsqueeze(-1).expand(-1, -1, 2))
        return chosen, best, smooth


def make(device="cuda"):
    torch.manual_seed(104)
    batch = 2
    model = PoseEstimator(batch).to(device).eval()

    def inputs():
        return (torch.rand(batch, 3, 24, 24, device=device),)

    return {
        "fn": model,
        "inputs": inputs,
        "state": lambda: [model.smoother.track],
        "kind": "inference",
        "warmup": 3,
    }
