"""Capture the calls of a function as CUDA graphs, and replay them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable


class Graphed:
    """Call a function by replays of CUDA graphs, one graph for each signature of its arguments. It decorates methods, too.

    A signature has shapes, dtypes and numbers, and the modes of the call: gradients, autocast, training of the module that a
    method belongs to. What else Python decides is as it was at the capture, such as the mode of another module.

    The first calls of a signature run eagerly, on a side stream; the next one is captured. From then on tensors are copied into
    those of the capture, except those that were the same tensors in all calls before it, such as a cache. Results are the
    tensors of the capture, without gradients: the next call overwrites them, so clone what you keep.

    Raises:
        ValueError: an argument is a CPU tensor.
    """

    most = 16  # signatures; calls of further ones run eagerly

    def __init__(self, function: Callable[..., Any], warm_ups: int = 3) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function, self._warm_ups = function, warm_ups
        self._graphs: dict[Any, _Graph] = {}

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        bound = type(self)(self._function.__get__(owner, kind), self._warm_ups)
        vars(owner)[self._function.__name__] = bound
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the function; within another capture, call it, so that it becomes a part of that graph."""
        if torch.cuda.is_current_stream_capturing():
            return self._function(*args, **kwargs)
        leaves = pytree.tree_leaves((args, kwargs))
        signature = (*_modes(self._function), len(args), *kwargs, *map(_kind, leaves))
        graph = self._graphs.get(signature)
        if graph is None:
            if len(self._graphs) == self.most:
                return self._function(*args, **kwargs)
            graph = self._graphs[signature] = _Graph(self._function, self._warm_ups)
        return graph(leaves, args, kwargs)


def _modes(function: Callable[..., Any]) -> tuple[Any, ...]:
    training = getattr(getattr(function, "__self__", function), "training", None)
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cuda"), training


def _kind(leaf: Any) -> Any:
    """Return what has to be the same for a replay: shape and dtype of a tensor, a number, an object."""
    if isinstance(leaf, torch.Tensor):
        if not leaf.is_cuda:
            shape = tuple(leaf.shape)
            raise ValueError(f"an argument is a CPU tensor of shape {shape}, which a replay may read late: move it to the GPU")
        return leaf.shape, leaf.dtype, leaf.device
    return (type(leaf), leaf) if isinstance(leaf, (bool, int, float, complex, str)) else id(leaf)


class _Graph:
    """The calls of one signature: eager ones, then replays."""

    def __init__(self, function: Callable[..., Any], warm_ups: int) -> None:
        self._function, self._warm_ups = function, warm_ups
        self._side = torch.cuda.Stream()  # one for all, because each has a workspace of cuBLAS
        self._graph: torch.cuda.CUDAGraph | None = None
        self._given: list[Any] = []  # the arguments of the last call, then those of the capture
        self._changes: set[int] = set()  # of which tensors the caller makes new ones
        self._out: Any = None

    def __call__(self, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        changed = {
            number
            for number, (old, new) in enumerate(zip(self._given, leaves, strict=False))
            if isinstance(new, torch.Tensor) and new is not old
        }
        if not changed <= self._changes:
            self._graph, self._changes = None, self._changes | changed
        if self._warm_ups:
            self._warm_ups, self._given = self._warm_ups - 1, leaves
            return self._warmed_up(args, kwargs)
        graph = self._graph
        if graph is None:
            graph = self._graph = self._captured(leaves, args, kwargs)
        else:
            with torch.no_grad():
                for number in changed:
                    self._given[number].copy_(leaves[number])
        graph.replay()
        return self._out

    def _warmed_up(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        side, current = self._side, torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            out = self._function(*args, **kwargs)
        current.wait_stream(side)
        return out

    def _captured(self, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.cuda.CUDAGraph:
        _, structure = pytree.tree_flatten((args, kwargs))
        self._given = [_copy(leaf) if number in self._changes else leaf for number, leaf in enumerate(leaves)]
        args, kwargs = pytree.tree_unflatten(self._given, structure)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._side):
            out = self._function(*args, **kwargs)
        torch.cuda.synchronize()  # a capture sets the random state on a stream of its own
        self._out = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, out)
        return graph


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
