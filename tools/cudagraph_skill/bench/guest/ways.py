"""The ways of running a step: without a graph, with graphs of the model or of a part of it, or as one graph."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from cudagraph_skill.bench.guest.workloads import Work

    Mark = Callable[[str], contextlib.AbstractContextManager[Any]]
    Step = Callable[[tuple[Tensor, ...], Tensor], Tensor]

_WARM_UPS = 3
_UNMARKED: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


def unmarked(_: str) -> contextlib.AbstractContextManager[None]:
    """Mark nothing: for steps that are timed."""
    return _UNMARKED


def step_of(work: Work, forward: Callable[..., Any], mark: Mark) -> Step:
    """Return a function that runs one step of a workload without a graph of its own, and returns the loss."""
    optimizer = work.optimizer
    device = work.batches[0][1].device.type

    def compute(inputs: tuple[Tensor, ...], target: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=work.autocast, cache_enabled=False):
            with mark("forward"):
                out = forward(*inputs)
            with mark("loss"):
                return work.loss(out, target)

    def infer(inputs: tuple[Tensor, ...], target: Tensor) -> Tensor:
        with torch.no_grad():
            return compute(inputs, target)

    def train(inputs: tuple[Tensor, ...], target: Tensor) -> Tensor:
        assert optimizer is not None
        with mark("zero_grad"):
            optimizer.zero_grad(set_to_none=True)
        loss = compute(inputs, target)
        with mark("backward"):
            loss.backward()
        with mark("optimizer"):
            if work.clip:
                torch.nn.utils.clip_grad_norm_(work.model.parameters(), work.clip)
            optimizer.step()
        return loss.detach()

    return train if optimizer is not None else infer


def captured(work: Work, forward: Callable[..., Any], mark: Mark) -> Step:
    """Capture a whole step by hand, and return a function that copies a batch into its static tensors and replays it."""
    step = step_of(work, forward, unmarked)
    first, wanted = work.batches[0]
    inputs, target = tuple(tensor.clone() for tensor in first), wanted.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UPS):
            step(inputs, target)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        loss = step(inputs, target)
    torch.cuda.synchronize()

    def replay(new_inputs: tuple[Tensor, ...], new_target: Tensor) -> Tensor:
        with mark("copy"):
            for kept, new in zip(inputs, new_inputs):  # noqa: B905 - one number of inputs
                kept.copy_(new)
            target.copy_(new_target)
        with mark("replay"):
            graph.replay()
        return loss

    return replay


def graphed(work: Work, module: nn.Module, trains: bool) -> None:
    """Give a module graphs of its own, for what it is given in a step; with `trains` it gives gradients to what is before it."""
    seen: list[tuple[Tensor, ...]] = []
    hook = module.register_forward_pre_hook(lambda _, given: seen.append(given))
    device = work.batches[0][1].device.type
    grad = torch.set_grad_enabled(work.optimizer is not None)
    with grad, torch.autocast(device, torch.bfloat16, enabled=work.autocast, cache_enabled=False):
        work.model(*work.batches[0][0])
        hook.remove()
        samples = tuple(tensor.detach().clone().requires_grad_(trains and tensor.requires_grad) for tensor in seen[0])
        seen.clear()
        torch.cuda.make_graphed_callables(module, samples)


def _whole(work: Work, mark: Mark) -> Step:
    graphed(work, work.model, trains=True)
    return step_of(work, work.model, mark)


def _partial(work: Work, mark: Mark, trains: bool = True) -> Step:
    graphed(work, work.part, trains)
    return step_of(work, work.model, mark)


WAYS: dict[str, Callable[[Work, Mark], Step]] = {
    "eager": lambda work, mark: step_of(work, work.model, mark),
    "manual": lambda work, mark: captured(work, work.model, mark),
    "make_graphed_callables": _whole,
    "partial": _partial,
    "partial as published": lambda work, mark: _partial(work, mark, trains=False),
    "manual over compile": lambda work, mark: captured(work, torch.compile(work.model), mark),
}
