"""graph-update-refused: an executable graph is updated with a graph of another shape."""

import ctypes

import torch


def cudart() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded."""
    return ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


def check(code: int) -> None:
    """Raises what the runtime says about this code."""
    if code:
        raise torch.cuda.CudaError(code)


def recorded(x: torch.Tensor, scale: float, steps: int) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A kept graph that multiplies `steps` times."""
    g = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(g):
        out = x * scale
        for _ in range(steps - 1):
            out = out * scale
    g.instantiate()
    return g, out


def update(old: torch.cuda.CUDAGraph, new: torch.cuda.CUDAGraph) -> None:
    """Calls cudaGraphExecUpdate with the raw handles."""
    info = ctypes.create_string_buffer(64)
    executable, source = ctypes.c_void_p(old.raw_cuda_graph_exec()), ctypes.c_void_p(new.raw_cuda_graph())
    check(cudart().cudaGraphExecUpdate(executable, source, info))


def fails() -> None:
    """The new graph has one kernel more."""
    x = torch.ones(16, device="cuda")
    old, _ = recorded(x, 2.0, 1)
    new, _ = recorded(x, 2.0, 2)
    update(old, new)


def works() -> None:
    """Same nodes, other arguments: the update is accepted."""
    x = torch.ones(16, device="cuda")
    old, _ = recorded(x, 2.0, 1)
    new, out = recorded(x, 5.0, 1)
    update(old, new)
    for value in (1.0, 3.0):
        x.fill_(value)
        old.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 5)
