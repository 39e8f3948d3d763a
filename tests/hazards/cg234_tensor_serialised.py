"""tensor-serialised: saving or pickling a CUDA tensor copies it to the host."""

import copy
import io
import pickle

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """A batch of rows."""
    return (torch.randn(16, 8, device=DEVICE),)


def bad_dumped_activation(x):
    y = x.tanh()
    torch.save(y, io.BytesIO())  # CG234
    return y


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def checkpoint(self):
        torch.save({"model": self.state_dict(), "version": 2}, io.BytesIO())  # CG234

    def forward(self, x):
        y = self.fc(x)
        self.checkpoint()
        return y


checkpointed = Checkpointed().to(DEVICE).requires_grad_(False)


def bad_checkpoint_in_the_step(x):
    return checkpointed(x)


def message(payload):
    return len(pickle.dumps(payload))  # CG234


def bad_pickled_for_a_worker(x):
    message(x.mean(0))
    return x * 2


snapshot = torch.zeros(8, device=DEVICE)


def good_copied_on_the_device(x):
    snapshot.copy_(x.mean(0))
    return x * 2, snapshot


class Memory(nn.Module):
    """Its save stores on the GPU."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 8))

    def save(self, row):
        self.rows.copy_(torch.cat([row[None], self.rows[:-1]]))

    def forward(self, x):
        self.save(x.mean(0))
        return self.rows * 2


memory = Memory().to(DEVICE)


def good_own_save_method(x):
    return memory(x)


plain = nn.Linear(8, 8).to(DEVICE).requires_grad_(False)


def good_references_and_copies(x):
    weights = plain.state_dict()
    doubled = copy.deepcopy(x) * 2
    return doubled @ weights["weight"] + pickle.loads(pickle.dumps({"shift": 0.5}))["shift"]
