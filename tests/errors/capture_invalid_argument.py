"""capture-invalid-argument: a raw copy with a null pointer is captured."""

import ctypes

import torch


def cudart() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded."""
    return ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


def check(code: int) -> None:
    """Raises what the runtime says about this code."""
    if code:
        raise torch.cuda.CudaError(code)


def copy_raw(target: torch.Tensor, source: torch.Tensor) -> None:
    """A copy from device to device, as an extension makes it."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    to, start = ctypes.c_void_p(target.data_ptr()), ctypes.c_void_p(source.data_ptr())
    size = ctypes.c_size_t(target.numel() * target.element_size())
    check(cudart().cudaMemcpyAsync(to, start, size, 3, stream))


def cuda_graph(source: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A copy into a static buffer."""
    out = torch.empty(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out.zero_()
        copy_raw(out, source)
    return g, out


def fails() -> None:
    """The source is empty, so its pointer is null."""
    cuda_graph(torch.empty(0, device="cuda"))


def works() -> None:
    """A source of the same size."""
    x = torch.ones(16, device="cuda")
    g, out = cuda_graph(x)
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x)
