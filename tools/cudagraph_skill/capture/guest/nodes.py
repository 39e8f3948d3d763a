"""Count the nodes of a captured graph by kind, read with `cuda.bindings` if the user's torch brings it."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

ACTIVE, INVALIDATED = 1, 2  # cudaStreamCaptureStatus


class Nodes(NamedTuple):
    """The number of nodes of each kind; `host_copies` are copies from host memory."""

    kinds: dict[str, int]
    host_copies: int


def new_graph() -> torch.cuda.CUDAGraph:
    """Return a graph that keeps what was captured, where torch supports that (torch >=2.8)."""
    try:
        return torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:
        return torch.cuda.CUDAGraph()


def ready(graph: torch.cuda.CUDAGraph) -> None:
    """Instantiate a graph that was kept; any other already is."""
    with contextlib.suppress(RuntimeError, AttributeError):
        graph.instantiate()


def listed(graph: torch.cuda.CUDAGraph) -> Nodes | None:
    """Count the nodes of a graph made by `new_graph`; return None if they cannot be read."""
    try:
        from cuda.bindings import runtime

        handle = runtime.cudaGraph_t(graph.raw_cuda_graph())
    except (ImportError, AttributeError, RuntimeError, TypeError):
        return None
    kinds: dict[str, int] = {}
    host = _list(runtime, handle, kinds)
    return Nodes(kinds, host)


def _list(runtime: Any, handle: Any, kinds: dict[str, int]) -> int:
    """Count the nodes into `kinds`; the number of copies out of host memory."""
    error, _, number = runtime.cudaGraphGetNodes(handle, 0)
    if int(error) or not number:
        return 0
    nodes, host = runtime.cudaGraphGetNodes(handle, number)[1], 0
    for node in nodes:
        kind = re.sub("cudaGraphNodeType", "", runtime.cudaGraphNodeGetType(node)[1].name).lower()
        kinds[kind] = kinds.get(kind, 0) + 1
        host += kind == "memcpy" and _from_host(runtime, node)
    return host


def _from_host(runtime: Any, node: Any) -> bool:
    error, values = runtime.cudaGraphMemcpyNodeGetParams(node)
    if int(error):
        return False
    if values.kind.name.endswith("HostToDevice"):
        return True
    error, about = runtime.cudaPointerGetAttributes(values.srcPtr.ptr)
    return not int(error) and about.type.name in ("cudaMemoryTypeHost", "cudaMemoryTypeUnregistered")


def capture_status(stream: torch.cuda.Stream) -> int:
    """Return 0 if the stream is not capturing, else ACTIVE or INVALIDATED, which torch does not distinguish."""
    runtime = _runtime()
    if runtime is None:
        return ACTIVE if torch.cuda.is_current_stream_capturing() else 0
    status = ctypes.c_int(0)
    runtime.cudaStreamIsCapturing(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(status))
    return status.value


_loaded: list[Any] = []


def _runtime() -> Any:
    """Return the CUDA runtime that torch has loaded."""
    if not _loaded:
        match = re.search(r"/\S*libcudart[^/\s]*\.so\S*", Path("/proc/self/maps").read_text())
        _loaded.append(ctypes.CDLL(match[0]) if match else None)
    return _loaded[0]
