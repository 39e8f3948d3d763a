"""Two-branch encoder whose branches run in separate lanes where the hardware has them."""
import torch
from torch import nn


class Lane:
    def __init__(self, device):
        self.real = device == "cuda"
        if self.real:
            self.stream = torch.cuda.Stream()
            self.opened, self.closed = torch.cuda.Event(), torch.cuda.Event()

    def __enter__(self):
        if self.real:
            self.home = torch.cuda.current_stream()
            self.opened.record(self.home)
            self.stream.wait_event(self.opened)
            self.ctx = torch.cuda.stream(self.stream)
            self.ctx.__enter__()
        return self

    def __exit__(self, *exc):
        if self.real:
            self.closed.record(self.stream)
            self.ctx.__exit__(*exc)
            self.home.wait_event(self.closed)
        return False


class TwoLane(nn.Module):
    def __init__(self, lane):
        super().__init__()
        self.local = nn.Conv1d(4, 6, 3, padding=1)
        self.wide = nn.Conv1d(4, 6, 7, padding=3)
        self.lane = lane

    def forward(self, x):
        with self.lane:
            b = torch.tanh(self.wide(x))
        a = torch.relu(self.local(x))
        return torch.cat([a, b], dim=1)


def make(device="cuda"):
    torch.manual_seed(74)
    net = TwoLane(Lane(device)).to(device)
    net.requires_grad_(False)

    def inputs():
        return (torch.randn(2, 4, 16, device=device),)

    return {"fn": net, "inputs": inputs, "kind": "inference"}
