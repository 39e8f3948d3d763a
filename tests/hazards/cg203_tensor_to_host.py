"""tensor-to-host: a GPU tensor is copied to pageable CPU memory in the region."""

import numpy as np
import torch
from torch import nn

DEVICE = "cuda"
STEPS = torch.tensor([1, 2, 4])  # stays on the CPU


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(16, 8, device=DEVICE),)


def to_numpy(t):
    return t.detach().cpu().numpy()  # CG203


def to_device(batch, device):
    return {k: v.to(device) for k, v in batch.items()}


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)

    def forward(self, x):
        expert = self.gate(x).argmax(-1)
        counts = [0] * 4
        for e in expert.tolist():  # CG203
            counts[e] += 1
        return x * counts[0]


class Frame:
    """A table of numbers with the method names of a tensor."""

    def __init__(self, rows):
        self.rows = rows

    def cpu(self):
        return self

    def numpy(self):
        return self

    def tolist(self):
        return list(self.rows)


router = Router().to(DEVICE).requires_grad_(False)
frame = Frame((0.5, 1.5))


def bad_metric_in_numpy(x):
    return x + 1, to_numpy(x - x.mean())


def bad_count_experts(x):
    return router(x)


def bad_offload(x):
    host = x.relu().to("cpu")  # CG203
    parked = x.to(torch.device("cpu"), torch.float64)  # CG203
    return x + 1, host, parked


def bad_forced_array(x):
    fetch = torch.Tensor.tolist
    top = fetch(x.topk(2, dim=0).indices[0])  # CG203
    array = x.sum(0).numpy(force=True)  # CG203
    return x + 1, top, array


def good_download_without_waiting(x):
    return x + 1, x.detach().to("cpu", non_blocking=True)


def good_other_conversions(x):
    half = x.to(torch.float16).to(x.device).to(x)
    moved = to_device({"x": x, "half": half}, DEVICE)
    return moved["x"] + moved["half"]


def good_lists_of_host_values(x):
    for row, gain in zip(STEPS.tolist(), frame.cpu().numpy().tolist(), strict=False):
        x = x * gain + row
    return x.reshape(*list(x.shape))


def good_numpy_of_shapes(x):
    scale = 1.0 / np.sqrt(x.shape[-1])
    return x * float(scale) + int(np.prod(x.shape))
