"""Track whether a program makes new gradients between the calls of a target, which a graph of the target alone does not see."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import checks, state, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_skill.capture.guest.comparison import Call
    from cudagraph_skill.capture.guest.load import Source


class Gradients:
    """Note the `.grad` of tensors that a target gets, call by call; `renewed` are those that had another one before."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[torch.Tensor, weakref.ref[torch.Tensor]]] = {}
        self.renewed: set[int] = set()

    def copied(self, value: Any) -> Any:
        """Copy a nested value of the arguments, with gradients, and note these."""
        self.seen(tensors.tensors(value))
        return tensors.copied(value)

    def seen(self, given: Iterable[torch.Tensor]) -> None:
        """Note the gradients of tensors as they are at one call."""
        for tensor in given:
            grad = tensors.gradient(tensor)
            if grad is None:
                continue
            _, last = self._last.get(id(tensor), (None, None))
            if last is not None and last() is not grad:
                self.renewed.add(id(tensor))
            self._last[id(tensor)] = (tensor, weakref.ref(grad))  # the tensor lives on, so that its id stays its own


def optimized(owner: Any) -> list[torch.Tensor]:
    """Return the parameters whose gradients an optimizer reads; [] for another object."""
    groups = owner.param_groups if isinstance(owner, torch.optim.Optimizer) else []
    return [parameter for group in groups for parameter in group["params"]]


def notes(source: Source, report: Any) -> list[str]:
    """Return a note if the call reads gradients, and the program makes new ones before each call.

    Several ranks get none: it takes two more calls, which other ranks may not make.
    """
    renewed = source.last.new_gradients if source.last is not None else 0
    if not renewed or report.several or not _are_read(source):
        return []
    tensors_of = "a parameter a new gradient" if renewed == 1 else f"{renewed} parameters new gradients"
    return [
        f"the program gives {tensors_of} before each call, and the replays got those: a graph of this call alone goes on with the "
        "tensors of the capture, so capture the backward pass with it, or keep them with zero_grad(set_to_none=False)"
    ]


def _are_read(source: Source) -> bool:
    """Return whether an eager call with other gradients leaves something else."""
    calls: list[Call] = []
    for factor in (1, 2):
        subject = source.fresh()
        args = checks.arguments(subject, 0)
        for tensor in [*tensors.given(args), *state.tensors(subject.roots).values()]:
            grad = tensors.gradient(tensor)
            if grad is not None and factor > 1:
                grad.detach().mul_(factor)
        with suppress(checks.EagerError):
            calls.append(checks.eager_call(subject, 0, full=False, given=args))
    if len(calls) < 2:
        return False
    left = [{path: copy for path, copy in call.left().items() if not path.endswith(".grad")} for call in calls]
    return any(far > 0 for far in tensors.differences(*left).values())
