"""tensor-membership: `in` and list methods compare GPU tensors and need the answer at once."""

import torch
from torch import nn

DEVICE = "cuda"
STOP_IDS = [2, 50256]


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randint(0, 9, (16,), device=DEVICE), torch.randn(16, 4, device=DEVICE))


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 9)

    def finished(self, token):
        return token in STOP_IDS  # CG205

    def forward(self, h):
        token = self.proj(h).sum(0).argmax()
        return h if self.finished(token) else h + token


class Registry:
    """Keeps tensors as keys: those are compared by identity first."""

    def __init__(self, parameters):
        self.slot = {p: torch.zeros_like(p) for p in parameters}
        self.names = ["weight", "bias"]

    def momentum(self, p):
        return self.slot[p] if p in self.slot else torch.zeros_like(p)


sampler = Sampler().to(DEVICE).requires_grad_(False)
registry = Registry(sampler.parameters())


def bad_stop_token(ids, h):
    return sampler(h) + ids[:, None]


def bad_padding_present(ids, h):
    if 0 in ids:  # CG205
        h = h * 2
    eos_missing = 2 not in ids[1:]  # CG205
    return h * eos_missing


def bad_drop_best(ids, h):
    scores = [row.sum() for row in h]
    best = torch.stack(scores).max()
    scores.remove(best)  # CG205
    place = scores.index(scores[-1] + 0)  # CG205
    return torch.stack(scores) + place + ids[1:]


def bad_compare_pairs(ids, h):
    first, last = ids[0], ids[-1]
    same = [first, last] == [ids.min(), ids.max()]  # CG205
    return h * (1 + same) + (first,).count(last)  # CG205


def good_isin(ids, h):
    stop = torch.isin(ids, ids[:2]) | (ids == 0)
    return torch.where(stop[:, None], h, h + 1)


def good_membership_of_attributes(ids, h):
    allowed = h.dtype in (torch.float32, torch.bfloat16) and h.shape[-1] not in (3, 5)
    position = list(h.shape).index(4)
    return h + ids[:, None] if allowed else h * position


def good_keys_and_names(ids, h):
    batch = {"ids": ids, "h": h}
    if "mask" in batch or "weight" not in registry.names:
        return ids
    same = h.shape == (16, 4) and [ids.dim(), h.dim()] == [1, 2]
    return batch["h"] + registry.names.count("bias") + same


def good_tensor_as_key(ids, h):
    return h @ registry.momentum(sampler.proj.weight).T + ids[:, None]


def good_membership_by_identity(ids, h):
    known = any(t is h for t in (ids, h))
    return h * known
