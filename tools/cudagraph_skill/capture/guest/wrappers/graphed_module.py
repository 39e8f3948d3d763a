"""Capture the forward and backward passes of a module as CUDA graphs, and replay them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable


def graph_module(module: torch.nn.Module) -> torch.nn.Module:
    """Let a module capture its passes at its next call, and replay them from then on; return it.

    A call with other shapes, flags or modes than that one runs eagerly, and so does one within another capture, which becomes a
    part of that graph. Results are overwritten by the next call.
    """
    eager = module.forward

    @functools.wraps(eager, updated=())
    def first(*args: Any, **kwargs: Any) -> Any:
        if torch.cuda.is_current_stream_capturing():
            return eager(*args, **kwargs)
        module.forward = eager
        module.forward = _replayed(module, args, kwargs)
        return module.forward(*args, **kwargs)

    module.forward = first
    return module


def _replayed(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """Capture the passes for arguments of this kind; return the forward pass from now on."""
    eager, captured_for = module.forward, _signature(module, args, kwargs)
    passes = _Passes(module, args, kwargs)
    samples = tuple(tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in _tensors(args, kwargs))
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    random = torch.cuda.get_rng_state()
    with torch.autocast("cuda", cache_enabled=False, enabled=torch.is_autocast_enabled("cuda")):
        graphed = torch.cuda.make_graphed_callables(passes, samples)
    torch.cuda.set_rng_state(random)
    with torch.no_grad():  # the capture has run the module
        for buffer, before in buffers:
            buffer.copy_(before)

    @functools.wraps(eager, updated=())
    def forward(*args: Any, **kwargs: Any) -> Any:
        if torch.cuda.is_current_stream_capturing() or _signature(module, args, kwargs) != captured_for:
            return eager(*args, **kwargs)
        return graphed(*_tensors(args, kwargs))

    return forward


class _Passes(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """A module as one that takes tensors only: all else is as it was."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.module, self.eager = module, module.forward
        self.leaves, self.structure = pytree.tree_flatten((args, kwargs))

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Call the module's own forward pass with these tensors in their places."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.eager(*args, **kwargs)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]


def _signature(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cuda"))
    return module.training, *modes, len(args), *kwargs, *map(_kind, pytree.tree_leaves((args, kwargs)))


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.dtype, leaf.device, leaf.requires_grad
    return (type(leaf), leaf) if isinstance(leaf, (bool, int, float, complex, str)) else id(leaf)
