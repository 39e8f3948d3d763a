"""Triton kernels of benchmarks/techniques.py."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _gates(z, c, h, n: tl.constexpr):  # type: ignore[no-untyped-def]
    row, col = tl.program_id(0), tl.arange(0, n)
    at = z + row * 4 * n + col
    i, f, g, o = tl.load(at), tl.load(at + n), tl.load(at + 2 * n), tl.load(at + 3 * n)
    cell = tl.sigmoid(f) * tl.load(c + row * n + col) + tl.sigmoid(i) * (2 * tl.sigmoid(2 * g) - 1)
    tl.store(c + row * n + col, cell)
    tl.store(h + row * n + col, tl.sigmoid(o) * (2 * tl.sigmoid(2 * cell) - 1))


def gates(z: Any, c: Any, h: Any) -> None:
    """Apply the gates of an LSTM in one kernel."""
    _gates[(z.shape[0],)](z, c, h, n=c.shape[1])


@triton.jit  # type: ignore[untyped-decorator]
def _scaled(x, size: tl.constexpr, early: tl.constexpr):  # type: ignore[no-untyped-def]
    at = x + tl.program_id(0) * size + tl.arange(0, size)
    if early:
        tl.extra.cuda.gdc_wait()  # until the kernel before has ended and its writes can be seen
    value = tl.load(at)
    if early:
        tl.extra.cuda.gdc_launch_dependents()  # from here on the next may start
    tl.store(at, value * 0.999 + 0.001)


def chain(x: Any, count: int, *, early: bool) -> None:
    """Run `count` kernels in a row, each on the result of the one before."""
    for _ in range(count):
        _scaled[(x.numel() // 1024,)](x, size=1024, early=early, launch_pdl=early)
