"""graph-api-missing: an argument that the installed torch does not have."""

import inspect
from typing import Any

import torch


def fails() -> None:
    """`annotation_config` came with torch 2.15."""
    x = torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, annotation_config={"backend": "auto"}):
        x * 2


def works() -> None:
    """Only what the signature knows is passed."""
    x = torch.ones(8, device="cuda")
    wanted: dict[str, Any] = {"capture_error_mode": "thread_local", "annotation_config": {"backend": "auto"}}
    known = inspect.signature(torch.cuda.graph).parameters
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, **{name: value for name, value in wanted.items() if name in known}):
        y = x * 2
    for value in (3.0, 5.0):
        x.fill_(value)
        g.replay()
        assert y.eq(value * 2).all()
