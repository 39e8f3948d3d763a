"""Repair what a capture leaves behind in the process, so that the next one starts as in a fresh one."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

import torch

from cudagraph_skill.capture.guest import state

if TYPE_CHECKING:
    from collections.abc import Iterator

_FREED_BLOCKS = 1000  # of pinned memory, freed in one capture


@contextlib.contextmanager
def same_stream() -> Iterator[None]:
    """Restore the current stream after a failed capture; torch leaves that of the capture."""
    before = torch.cuda.current_stream()
    try:
        yield
    finally:
        torch.cuda.set_stream(before)


def reset_generators() -> None:
    """Make the GPU's generators leave a capture that failed: in torch 2.11 they stay as if capturing."""
    for repair in (_capture_nothing, _renew_default):
        if _draws():
            break
        with contextlib.suppress(RuntimeError, AttributeError):
            repair()
    for generator in state.tracked():
        _renew(generator)


def poll_freed_pinned_memory() -> None:
    """Let the pinned allocator meet the events of blocks that were freed in a capture: in torch 2.11 such an event raises once."""
    for _ in range(_FREED_BLOCKS):
        try:
            torch.empty(1).pin_memory()
        except RuntimeError:
            continue
        return


def _draws() -> bool:
    mark = torch.cuda.get_rng_state()
    try:
        torch.rand(1, device="cuda")
    except RuntimeError:
        return False
    torch.cuda.set_rng_state(mark)
    return True


def _capture_nothing() -> None:
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph.capture_begin()
        graph.capture_end()


def _renew_default() -> None:
    _renew(torch.cuda.default_generators[torch.cuda.current_device()])


def _renew(generator: torch.Generator) -> None:
    """Give a generator a random state that no capture holds, with the same numbers to come."""
    fresh = torch.Generator(device="cuda")
    fresh.set_state(generator.get_state())
    generator.graphsafe_set_state(fresh.graphsafe_get_state())
