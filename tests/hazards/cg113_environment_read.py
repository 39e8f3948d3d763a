"""environment-read: settings that are read in the region are read once, at capture."""

import json
import os
import tempfile
from pathlib import Path

import torch
from torch import nn

DEVICE = "cuda"
SETTINGS = Path(tempfile.mkdtemp()) / "settings.json"
SETTINGS.write_text('{"scale": 2.0}')
SCALE = float(os.environ.get("MODEL_SCALE", "3.0"))


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def fast_path():
    return os.environ.get("MODEL_FAST_PATH", "1") == "1"  # CG113


class Configured(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)

    def forward(self, x):
        scale = json.loads(SETTINGS.read_text())["scale"]  # CG113
        return self.net(x) * scale


class Arena(nn.Module):
    def __init__(self):
        super().__init__()
        self.environ = {"gravity": 9.81}
        self.net = nn.Linear(8, 8)

    def read_text(self, x):
        return self.net(x)

    def forward(self, x):
        return self.read_text(x) - self.environ["gravity"]


configured = Configured().to(DEVICE).requires_grad_(False)
arena = Arena().to(DEVICE).requires_grad_(False)


def bad_switch_in_helper(x):
    if fast_path():
        return x.tanh()
    return x.exp()


def bad_settings_file(x):
    return configured(x)


def bad_getenv_number(x):
    return x * int(os.getenv("MODEL_REPEATS", "2"))  # CG113


def good_read_at_import(x):
    return x * SCALE


def good_attributes_of_the_same_names(x):
    return arena(x)


def good_path_arithmetic(x):
    index = len(SETTINGS.suffix) + len(os.sep)
    return x[:, :index]
