"""Detection head with a selectable box post-processing stage."""
import numpy as np
import torch
import torch.nn as nn


def soft_decay(boxes, scores):
    centre = boxes[..., :2]
    near = torch.cdist(centre, centre) < 0.5
    beaten = (scores[:, None, :] > scores[:, :, None]) & near
    return scores * 0.5 ** beaten.sum(-1)


def greedy(boxes, scores):
    b, s = boxes.detach().cpu().numpy(), scores.detach().cpu().numpy()
    out = np.zeros_like(s)
    for n in range(len(s)):
        alive = np.ones(s.shape[1], dtype=bool)
        for i in np.argsort(-s[n]):
            if alive[i]:
                out[n, i] = s[n, i]
                alive &= np.abs(b[n, :, :2] - b[n, i, :2]).sum(-1) > 0.5
    return torch.from_numpy(out).to(scores.device)


STAGES = {"soft": soft_decay, "greedy": greedy}


class Head(nn.Module):
    def __init__(self, dim=12, mode="greedy"):
        super().__init__()
        self.box, self.cls = nn.Linear(dim, 4), nn.Linear(dim, 1)
        self.mode = mode

    def forward(self, feats):
        boxes = self.box(feats)
        scores = self.cls(feats).squeeze(-1).sigmoid()
        return boxes, STAGES[self.mode](boxes, scores)


def make(device="cuda"):
    torch.manual_seed(40)
    head = Head().to(device)

    @torch.no_grad()
    def detect(feats):
        return head(feats)

    return {"fn": detect, "inputs": lambda: (torch.randn(2, 9, 12, device=device),), "kind": "inference"}
