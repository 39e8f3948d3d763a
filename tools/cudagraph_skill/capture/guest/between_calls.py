"""Find what a program does to tensors that the target can reach between its calls, and do the same before calls of the check.

An optimizer moves the weights of a model between calls of an average of them, and a loop puts a mask on a model before each
forward pass. Without that, a replay that keeps an old number or reads an old tensor can equal eager.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import state, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

_NORM_DTYPE = {torch.float64: torch.float64}  # of halves in float, so that they do not overflow
IN_PLACE, MEMORY, TENSOR = "in place", "memory", "tensor"
_SHARE_OF_FREE_MEMORY, _ON_HOST = 8, 1 << 30  # one part in so many of the GPU's, and bytes of the host's, hold all values
_WHOLE = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}  # numbers that every torch adds up


class Mark(NamedTuple):
    """A tensor as one call left it: where it lies, its version, the norm of its values if the GPU holds them; and its id."""

    place: tuple[Any, ...]
    version: int | None
    norm: float
    identity: int

    def differs(self, other: Mark) -> bool:
        """Return whether memory or values are others; a view of the same memory is no change."""
        return self[:3] != other[:3]


class Given(NamedTuple):
    """The values that a program gave a tensor before a call, and how: IN_PLACE, as other MEMORY of it, or as another TENSOR."""

    path: str
    values: torch.Tensor
    how: str


class Between:
    """Record what changes from the end of one recorded call to the beginning of the next.

    `left_out` are the paths of tensors whose values were not kept for want of memory.
    """

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        self._room: dict[bool, int] = {}  # bytes, on the GPU or not
        self.left_out: set[str] = set()

    def left(self, roots: list[tuple[str, Any]]) -> None:
        """Mark the tensors as a call left them."""
        self._marks = _marks(roots)

    def given(self, roots: list[tuple[str, Any]]) -> list[Given]:
        """Return copies of the tensors that the program changed since then; [] before the first call that was marked."""
        if not self._marks:
            return []
        now, there = _marks(roots), _plain(roots)
        changed = [path for path, mark in now.items() if mark.differs(self._marks.get(path, mark))]
        return [
            Given(path, there[path].detach().clone(), _how(self._marks[path], now[path], there[path], path))
            for path in changed
            if self._fits(path, there[path])
        ]

    def _fits(self, path: str, tensor: torch.Tensor) -> bool:
        """Take the memory for a copy from what may be used; return False if there is too little."""
        on_gpu, size = tensor.is_cuda, tensor.numel() * tensor.element_size()
        if on_gpu not in self._room:
            self._room[on_gpu] = torch.cuda.mem_get_info()[0] // _SHARE_OF_FREE_MEMORY if on_gpu else _ON_HOST
        if size > self._room[on_gpu]:
            self.left_out.add(path)
            return False
        self._room[on_gpu] -= size
        return True


def put(roots: list[tuple[str, Any]], given: Iterable[Given]) -> list[torch.Tensor]:
    """Give the tensors these values in the way of the program; return what holds them now."""
    chosen = list(given)
    new = {each.path: each.values.clone() for each in chosen if each.how == TENSOR}
    state.assign(roots, new)
    there = _plain(roots) if chosen else {}
    held = []
    for each in chosen:
        tensor = there.get(each.path)
        if tensor is None:
            continue
        if each.how == MEMORY:
            tensor.data = each.values.clone()
        elif tensor is not new.get(each.path) and tensor.shape == each.values.shape:
            tensor.data.copy_(each.values)  # `.data` has a version counter of its own: what the program holds goes on
        held.append(tensor)
    return held


def notes(recorded: Iterable[list[Given]], left_out: set[str], wrong: bool) -> list[str]:
    """Return notes on tensors that the program replaces between calls, if a replay is wrong, and on those that were not kept."""
    said = []
    anew = sorted({each.path for given in recorded for each in given if each.how != IN_PLACE})
    if wrong and anew:
        said.append(
            f"between calls the program puts a new tensor in {_listed(anew)}: a graph goes on with the one of the capture, so copy into that"
        )
    if left_out:
        said.append(
            f"the program changes {_listed(sorted(left_out))} between calls, and memory for their values was short: "
            "the check leaves them as its own calls do"
        )
    return said


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + f" and {len(paths) - 3} more" * (len(paths) > 3)


def _plain(roots: list[tuple[str, Any]]) -> dict[str, torch.Tensor]:
    """Return the tensors whose values can be copied and put back, by path."""
    return {
        path: tensor
        for path, tensor in state.tensors(roots).items()
        if type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.is_inference()
        and 0 not in tensor.stride()
    }


def _marks(roots: list[tuple[str, Any]]) -> dict[str, Mark]:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()  # a stream of the program may still write
    marks: dict[str, Mark] = {}
    for path, tensor in _plain(roots).items():
        with contextlib.suppress(RuntimeError):  # one of a transform, which has no memory of its own
            marks[path] = _mark(tensor)
    return marks


def _mark(tensor: torch.Tensor) -> Mark:
    norm = _norm(tensor.detach()) if tensor.is_cuda else 0.0
    return Mark((tensor.shape, tensor.dtype, tensor.data_ptr()), tensor._version, norm, id(tensor))


def _norm(tensor: torch.Tensor) -> float:
    """Return a number that changes with the values, whatever wrote them; 0 where only the version tells."""
    if tensor.dtype in tensors.TOLERANCES:
        return float(torch.linalg.vector_norm(tensor, dtype=_NORM_DTYPE.get(tensor.dtype, torch.float32)))
    return float(tensor.sum()) if tensor.dtype in _WHOLE else 0.0


def _how(before: Mark, now: Mark, tensor: torch.Tensor, path: str) -> str:
    """Return how the program gave the tensor these values; new gradients are told apart elsewhere (gradients.py)."""
    if before.place == now.place or path.endswith(".grad"):
        return IN_PLACE
    if before.identity == now.identity and before.place[1] == now.place[1]:
        return MEMORY  # `.data =`, which moves a weight away from where a graph reads it
    return TENSOR if type(tensor) is torch.Tensor else IN_PLACE
