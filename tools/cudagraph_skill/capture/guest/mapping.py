"""Map a callable: what of it captures, what does not and why, each part's share of launches and time, and what graphs would bring.

The whole is checked first. Where it does not capture, the modules that it calls are checked, each alone with the arguments of
one real call, then those inside the ones that fail. Parts that were not tried say so.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import agreement, checks, load, modes, regions, tensors, verdict, why_failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.capture.guest.regions import Arguments, Region, Totals

prepare = verdict.prepare

_PART = 0.7  # of the deadline that may be spent on parts


def run(request: dict[str, Any], prepared: Any, report: Any) -> None:
    """Map one callable and report the result."""
    if isinstance(prepared, (load.Misuse, load.Raised)):
        verdict.run(request, prepared, report)
        return
    report.result(mapped(prepared, report))


def mapped(source: load.Source, report: Any) -> dict[str, Any]:
    """Return the result of the whole, with a `map` of its regions where eager calls came back."""
    end = time.monotonic() + _PART * float(source.request.get("deadline") or 120)
    try:
        subject, watched, totals = _measured(source, report)
    except (load.Misuse, load.Raised, checks.EagerError, RuntimeError) as error:
        report.step("map", "skipped", f"measuring it raised {why_failed.shown(getattr(error, 'error', error))}")
        return verdict.checked(source, report)
    whole = verdict.checked(source, report)
    answers: dict[int, dict[str, Any]] = {0: whole}
    if whole["verdict"] in ("capture_error", "silent_wrong"):
        _Parts(source, subject, end, report, answers).inside(watched.root)
    return {**whole, "map": {**totals._asdict(), "regions": [_row(region, answers) for region in watched.root.all()]}}


def _measured(source: load.Source, report: Any) -> tuple[load.Subject, regions.Watch, Totals]:
    report.progress("measuring its parts")
    start = time.monotonic()
    why = verdict.unusable()
    if why:
        raise RuntimeError(why)
    subject = source.fresh()
    warm_ups = checks.WARM_UPS if subject.warmup is None else subject.warmup
    for number in range(warm_ups):
        checks.eager_call(subject, number, full=False)
    watched, totals = regions.measured(subject, warm_ups)
    count = len(watched.regions())
    report.step("map", "ok", f"{count} regions, {totals.launches:.0f} launches a call", time.monotonic() - start)
    return subject, watched, totals


class _Parts:
    """Checks the parts of regions that do not capture; equal parts once."""

    def __init__(self, source: load.Source, subject: load.Subject, end: float, report: Any, answers: dict[int, dict[str, Any]]) -> None:  # fmt: skip
        self._source, self._subject, self._end, self._report, self._answers = source, subject, end, report, answers
        self._alike: dict[Any, int] = {}

    def inside(self, region: Region) -> None:
        """Check what a region calls, and what those call that do not capture."""
        arguments = self._arguments(region)
        for part in sorted(region.parts, key=lambda part: -part.cpu):
            if part.kind == regions.OPTIMIZER:
                self._answers[part.number] = self._checked(part, functools.partial(_of_optimizer, part))
            elif part.kind == regions.MODULE and part.number in arguments:
                self._module(part, arguments[part.number])

    def _module(self, part: Region, given: Arguments) -> None:
        key = _kind(part, given)
        if key in self._alike:
            self._answers[part.number] = {"verdict": self._answers[self._alike[key]]["verdict"], "like": self._alike[key]}
            return
        answer = self._checked(part, functools.partial(_of_module, part, given))
        self._answers[part.number] = answer
        if answer["verdict"] not in ("", "safe"):
            self.inside(part)
        if answer["verdict"]:
            self._alike[key] = part.number

    def _checked(self, part: Region, made: Callable[[], load.Subject]) -> dict[str, Any]:
        if time.monotonic() > self._end:
            return {"verdict": "", "said": "not tried: the deadline is near; `--deadline` gives it longer"}
        self._report.progress(f"capturing {part.name}")
        source = load.Source({**self._source.request, "found": None})
        source.reuse(made(), "a part of the program")
        return verdict.checked(source, _Silent())

    def _arguments(self, region: Region) -> dict[int, Arguments]:
        """Call the whole once more, and copy what the parts of one region are called with."""
        wanted = {(part.kind, id(part.owner)): part.number for part in region.parts}
        found: dict[int, Arguments] = {}
        watched = regions.watch(self._subject)

        def took(part: Region, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            number = wanted.get((part.kind, id(part.owner)))
            at_home = part.parent is not None and part.parent.owner is region.owner
            if number is not None and at_home and number not in found:
                found[number] = _arguments(args, kwargs)

        number = checks.WARM_UPS
        args, kwargs = checks.arguments(self._subject, number)
        with regions.followed(watched, lambda _: contextlib.nullcontext(), took):
            self._subject.call(*args, **kwargs)
        torch.cuda.synchronize()
        return found


class _Silent(agreement.Alone):
    def progress(self, doing: str) -> None:
        """Report nothing: the map has one line for each part."""

    def step(self, *_: Any) -> None:
        """Report nothing."""


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    return regions.Arguments(tensors.copied(args), tensors.copied(kwargs), modes.now())


def _kind(part: Region, given: Arguments) -> tuple[Any, ...]:
    """Return what two modules have in common that are checked once: class, parameters, mode, and what they are called with."""
    shapes = tuple((name, tuple(value.shape), value.dtype) for name, value in part.owner.state_dict(keep_vars=True).items())
    signature = tensors.signature(given.args, given.kwargs)
    return type(part.owner), shapes, part.owner.training, signature, given.modes


def _of_module(part: Region, given: Arguments) -> load.Subject:
    """Return a module's forward pass as a subject, with its backward pass where gradients flow."""
    module = part.owner
    call = functools.partial(_forward, module, given)
    return load.Subject(
        call, lambda: (tensors.copied(given.args), tensors.copied(given.kwargs)), None, [("", module)], None, part.name
    )


def _forward(module: torch.nn.Module, given: Arguments, *args: Any, **kwargs: Any) -> Any:
    with given.modes.entered():
        out = module(*args, **kwargs)
    losses = [tensor.float().sum() for tensor in tensors.tensors(out) if tensor.requires_grad and tensor.is_floating_point()]
    if losses:
        torch.autograd.backward(torch.stack(losses).sum())
    return out


def _of_optimizer(part: Region) -> load.Subject:
    return load.Subject(part.owner.step, lambda: ((), {}), None, [("", part.owner)], None, part.name)


# The result -----------------------------------------------------------------------------------------------------------


def _row(region: Region, answers: dict[int, dict[str, Any]]) -> dict[str, Any]:
    answer = answers.get(region.number, {})
    return {
        "number": region.number,
        "inside": region.parent.number if region.parent else -1,
        "kind": region.kind,
        "name": region.name,
        "class": type(region.owner).__name__ if region.kind == regions.MODULE else "",
        "calls": region.calls,
        "launches": region.launches,
        "gpu": region.gpu,
        "cpu": region.cpu,
        "verdict": answer.get("verdict", ""),
        "said": answer.get("said", ""),
        "like": answer.get("like", -1),
        "causes": answer.get("causes", []) if region.number else [],
    }
