"""A timeline: what the GPU did, which calls of the CPU launched it or waited for it, and the named ranges around them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 300  # characters of a name


@lru_cache(1 << 16)
def named(text: str) -> str:
    """Return a name from a trace as it can be shown anywhere: printable, and no longer than a few lines."""
    return printable(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


class Work(NamedTuple):
    """One kernel, copy or fill: seconds on the trace's clock, and when the call began that launched it, if the trace knows.

    `kind` is kernel, memcpy or memset; `in_graph` is whether a graph launch started it.
    """

    name: str
    kind: str
    start: float
    end: float
    launched: float | None
    in_graph: bool

    @property
    def asked(self) -> float:
        """Return when the CPU launched it, else when it began."""
        return self.start if self.launched is None else self.launched


class Call(NamedTuple):
    """One call of CUDA on the CPU; `operation` is the innermost operation around it, such as `aten::item`."""

    name: str
    start: float
    end: float
    operation: str


class Range(NamedTuple):
    """A named range of the CPU, such as `ProfilerStep#5`."""

    name: str
    start: float
    end: float


class Timeline(NamedTuple):
    """What a trace holds of one GPU: `maker` made it, on `gpu`, the busiest of `gpus`.

    `work` and `calls` are in the order of their starts; `on_cpu` are the times in which the CPU ran operations or called CUDA.
    `unread` counts work of GPUs whose times make no sense, which is left out.
    """

    maker: str
    gpu: str
    work: Sequence[Work]
    calls: Sequence[Call]
    ranges: Sequence[Range]
    on_cpu: Sequence[tuple[float, float]]
    gpus: int
    unread: int = 0
