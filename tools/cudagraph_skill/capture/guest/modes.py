"""What a call runs under besides its arguments: gradients, inference mode, autocast, and the mode of each module in reach."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cudagraph_skill.capture.guest import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Modes(NamedTuple):
    """`autocast` is its dtype on the GPU, None where it is off; `training` has each module with its flag."""

    grad: bool
    inference: bool
    autocast: torch.dtype | None
    training: tuple[tuple[torch.nn.Module, bool], ...] = ()

    @property
    def words(self) -> str:
        """Describe what of it is not as in training without autocast."""
        evaluated = sum(not training for _, training in self.training)
        part = "" if evaluated == len(self.training) else f"{evaluated} of {len(self.training)} modules in "
        said = {
            f"{part}eval mode": evaluated > 0,
            "inference_mode": self.inference,
            "no_grad": not self.grad and not self.inference,
            f"autocast {str(self.autocast).removeprefix('torch.')}": self.autocast is not None,
        }
        return ", ".join(words for words, holds in said.items() if holds)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Put the modules into their modes, which stay, and enter the others for the time of the block."""
        for module, training in self.training:
            module.training = training
        with contextlib.ExitStack() as modes:
            if self.autocast is not None or _autocast() is not None:  # casts of weights that have changed since
                torch.clear_autocast_cache()
                modes.callback(torch.clear_autocast_cache)
            if torch.is_inference_mode_enabled() != self.inference:
                modes.enter_context(torch.inference_mode(self.inference))
            modes.enter_context(torch.set_grad_enabled(self.grad))
            if self.autocast != _autocast():
                modes.enter_context(torch.autocast("cuda", dtype=self.autocast, enabled=self.autocast is not None))
            yield

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call in these modes; other calls of the program may be in others."""

        @functools.wraps(call)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self.entered():
                return call(*args, **kwargs)

        return called

    def around_timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Put the modules into their modes now, and return the call in the others; as it is where these are the usual ones.

        To put the modules of a large model into their modes takes as long as a replay, and is no part of the call.
        """
        for module, training in self.training:
            module.training = training
        others = self._replace(training=())
        return others.around(call) if others.words else call


def now(roots: list[tuple[str, Any]] | tuple[()] = ()) -> Modes:
    """Return the present modes, with those of the modules that the roots reach."""
    modules = tuple((value, value.training) for _, value in state.walk(list(roots)) if isinstance(value, torch.nn.Module))
    return Modes(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), _autocast(), modules)


def _autocast() -> torch.dtype | None:
    return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
