"""capture-raw-cudamalloc: an extension allocates its workspace with cudaMalloc while the capture is open."""

import ctypes
import os

import torch


def cudart() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded."""
    return ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


def check(code: int) -> None:
    """Raises what the runtime says about this code."""
    if code:
        raise torch.cuda.CudaError(code)


def fails() -> None:
    """The workspace is made at each call; the driver's log names the function."""
    os.environ["CUDA_LOG_FILE"] = "stderr"
    x = torch.ones(16, device="cuda")
    workspace = ctypes.c_void_p()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        check(cudart().cudaMalloc(ctypes.byref(workspace), ctypes.c_size_t(1 << 20)))
        x.mul_(2)


def works() -> None:
    """The workspace comes from torch's allocator, which knows about the capture."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        workspace = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
        workspace.zero_()
        out = x * 2
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
