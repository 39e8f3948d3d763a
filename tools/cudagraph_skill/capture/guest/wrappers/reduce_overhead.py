"""Compile a function, and let torch.compile record and replay its CUDA graphs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def reduce_overhead(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function. Its results are overwritten by the next call, so clone what you keep.

    Within another capture the function itself is called, so that it becomes a part of that graph: call it once before, too.
    """
    compiled = torch.compile(function, mode="reduce-overhead")

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.cuda.is_current_stream_capturing():
            return function(*args, **kwargs)
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(*args, **kwargs)

    return call
