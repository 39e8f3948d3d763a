"""capture-end-wrong-stream: raw code ends the capture on a stream that joined later."""

import ctypes

import torch


def cudart() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded."""
    return ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


def check(code: int) -> None:
    """Raises what the runtime says about this code."""
    if code:
        raise torch.cuda.CudaError(code)


def fails() -> None:
    """The side stream belongs to the capture, but it did not begin it."""
    x = torch.ones(16, device="cuda")
    main, side = torch.cuda.Stream(), torch.cuda.Stream()
    g, graph = torch.cuda.CUDAGraph(), ctypes.c_void_p()
    torch.cuda.synchronize()
    with torch.cuda.stream(main):
        g.capture_begin()
        side.wait_stream(main)
    with torch.cuda.stream(side):
        x.mul_(2)
        check(cudart().cudaStreamEndCapture(ctypes.c_void_p(side.cuda_stream), ctypes.byref(graph)))


def works() -> None:
    """A nested stream context, joined again; torch ends the capture."""
    x = torch.ones(16, device="cuda")
    side = torch.cuda.Stream()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        main = torch.cuda.current_stream()
        out = x * 2
        side.wait_stream(main)
        with torch.cuda.stream(side):
            out.add_(1)
        main.wait_stream(side)
    for value in (1.0, 4.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2 + 1)
