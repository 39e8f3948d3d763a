"""capture-print-tensor: a tensor is formatted for a log line in the region."""

import logging

import torch


def fails() -> None:
    """The log level lets the line through, so the tensor is turned into text."""
    logging.basicConfig(level=logging.INFO)
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
        logging.getLogger(__name__).info(f"hidden state {out}")


def works() -> None:
    """The region copies into a probe, the log line comes after the replay."""
    x = torch.ones(16, device="cuda")
    probe = torch.empty_like(x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        probe.copy_(x * 2)
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        assert str(float(2 * value)).rstrip("0") in str(probe)
        assert torch.equal(probe, x * 2)
