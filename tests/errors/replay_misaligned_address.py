"""replay-misaligned-address: an offset table that is rewritten between replays points into the middle of a float."""

import torch
import triton
import triton.language as tl


@triton.jit
def _unpack(packed, start, out, count: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.arange(0, count)
    values = (packed + tl.load(start)).to(tl.pointer_type(tl.float32))
    tl.store(out + offsets, tl.load(values + offsets) * 2)


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A graph that reads 256 floats from byte `start` of a packed buffer of 512 floats."""
    packed = torch.arange(512, dtype=torch.float32, device="cuda").view(torch.uint8)
    start = torch.zeros(1, dtype=torch.int32, device="cuda")
    out = torch.zeros(256, device="cuda")
    _unpack[(1,)](packed, start, out, 256)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _unpack[(1,)](packed, start, out, 256)
    return graph, packed, start, out


def _graph_replay(graph: torch.cuda.CUDAGraph) -> None:
    """One step, waited for: the error comes asynchronously."""
    graph.replay()
    torch.cuda.synchronize()


def fails() -> None:
    """The host packs a one-byte field first; the floats now begin at byte 1."""
    graph, _packed, start, _out = _record()
    _graph_replay(graph)
    start.fill_(1)
    _graph_replay(graph)


def works() -> None:
    """Every section of the packed buffer begins at a multiple of 16 bytes."""
    graph, packed, start, out = _record()
    for byte in (0, 16, 64):
        assert byte % 16 == 0
        start.fill_(byte)
        _graph_replay(graph)
        torch.testing.assert_close(out, packed.view(torch.float32)[byte // 4 : byte // 4 + 256] * 2)
