import dataclasses
from typing import NamedTuple

import torch


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    mask: torch.Tensor
    name: str = "train"
    extra: object = None


def r(*shape):
    return torch.randn(*shape, device="cuda")


def inputs():
    return Pair(r(8), r(8)), {"a": [r(8), (r(8), None)], "mode": "mean", "n": 3}, None


def step(pair, tree, nothing):
    assert nothing is None and tree["a"][1][1] is None
    out = pair.left * pair.right + tree["a"][0] - tree["a"][1][0] * tree["n"]
    return out.mean() if tree["mode"] == "mean" else out.sum()


def batches():
    return (Batch(r(8, 16), r(8, 16) > 0),)


def masked(batch):
    return torch.where(batch.mask, batch.x, batch.x.new_zeros(()))


def nested_out(x):
    return {"loss": x.mean(), "parts": [x[0], (x[1], None, "ok")], "batch": Batch(x * 2, x > 0), "pair": Pair(x, x.t()), "n": 3}
