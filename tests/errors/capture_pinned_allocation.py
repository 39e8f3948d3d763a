"""capture-pinned-allocation: page-locked host memory is made by a library inside the region."""

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
    """cudaHostAlloc, called outside torch's pinned allocator; the driver's log names it."""
    os.environ["CUDA_LOG_FILE"] = "stderr"
    x = torch.ones(16, device="cuda")
    staging = ctypes.c_void_p()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        check(cudart().cudaHostAlloc(ctypes.byref(staging), ctypes.c_size_t(1 << 20), 0))
        x.mul_(2)


def works() -> None:
    """The staging buffer is pinned before the region and stays alive."""
    x = torch.ones(16, device="cuda")
    staging = torch.empty(16, pin_memory=True)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        staging.copy_(x * 2, non_blocking=True)
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(staging, torch.full((16,), 2 * value))
