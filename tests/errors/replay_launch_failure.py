"""replay-launch-failure: a kernel with a trap gets a length that it was not built for."""

import torch
import triton
import triton.language as tl


@triton.jit
def _masked(lengths, out, count: tl.constexpr):  # type: ignore[no-untyped-def]
    """Stops the GPU if a length is above 64, as libraries do when their own check fails."""
    offsets = tl.arange(0, count)
    checked = tl.inline_asm_elementwise(
        "{ .reg .pred bad; setp.gt.s32 bad, $1, 64; @bad trap; mov.b32 $0, $1; }",
        "=r,r",
        [tl.load(lengths + offsets)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(out + offsets, checked)


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
    lengths = torch.ones(128, dtype=torch.int32, device="cuda")
    out = torch.zeros_like(lengths)
    _masked[(1,)](lengths, out, 128)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _masked[(1,)](lengths, out, 128)
    return graph, lengths, out


def _graph_replay(graph: torch.cuda.CUDAGraph) -> None:
    """One step, waited for: the error comes asynchronously."""
    graph.replay()
    torch.cuda.synchronize()


def fails() -> None:
    """The counter in device memory passes the limit; no host code looks at it any more."""
    graph, lengths, _out = _record()
    for _ in range(3):
        _graph_replay(graph)
        lengths.add_(40)


def works() -> None:
    """The counter is held below the limit on the device."""
    graph, lengths, out = _record()
    for expected in (1, 41, 64):
        _graph_replay(graph)
        assert out.eq(expected).all()
        lengths.add_(40).clamp_(max=64)
