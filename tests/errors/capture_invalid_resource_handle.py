"""capture-invalid-resource-handle: an extension gets the raw handle of an event that does not exist yet."""

import ctypes

import torch


def cudart() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded."""
    return ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


def check(code: int) -> None:
    """Raises what the runtime says about this code."""
    if code:
        raise torch.cuda.CudaError(code)


def record_raw(event: torch.cuda.Event) -> None:
    """What an extension does with the handle that Python gave it."""
    handle, stream = ctypes.c_void_p(event.cuda_event), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    check(cudart().cudaEventRecord(handle, stream))


def cuda_graph(x: torch.Tensor, done: torch.cuda.Event) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A step with a mark at its end."""
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = x * 2
        record_raw(done)
    return g, out


def fails() -> None:
    """The CUDA event is created at the first record(): until then the handle is 0."""
    cuda_graph(torch.ones(16, device="cuda"), torch.cuda.Event())


def works() -> None:
    """The event is recorded once before its handle is handed over."""
    x = torch.ones(16, device="cuda")
    done = torch.cuda.Event()
    done.record()
    g, out = cuda_graph(x, done)
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)
