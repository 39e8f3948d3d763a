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

from cudagraph_skill.capture.guest import agreement, calibration, checks, load, modes, regions, tensors, verdict, why_failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.capture.guest.regions import Arguments, Region, Totals

    Found = tuple[load.Subject, regions.Watch, Totals, calibration.Prices]

_PART = 0.7  # of the deadline that may be spent on parts


def measured(source: load.Source, report: Any) -> dict[str, Any]:
    """Return the result of the whole, with a `map` of its regions where eager calls came back."""
    end = time.monotonic() + _PART * float(source.request.get("deadline") or 120)
    found = _measured_if_possible(source, report)
    if found is None:  # the error is gone, and with it the copy that its frames held
        return verdict.checked(source, report)
    subject, watched, totals, prices = found
    if torch.cuda.memory_allocated() > _free_bytes():  # this copy stays, as its parts are checked after the whole
        source.reuse(subject, "the GPU has no memory for a second one")
    whole = verdict.checked(source, report)
    answers: dict[int, dict[str, Any]] = {0: whole}

    def result() -> dict[str, Any]:
        regions_now = [_row(region, answers) for region in watched.root.all()]
        return {**whole, "map": {**totals._asdict(), "node": prices.node, "replay": prices.replay, "regions": regions_now}}

    if whole["verdict"] in ("capture_error", "silent_wrong"):
        report.draft(result())
        _Parts(source, subject, end, report, answers).inside(watched.root)
    return result()


def _measured_if_possible(source: load.Source, report: Any) -> Found | None:
    try:
        return _measured(source, report)
    except (load.Misuse, load.Raised, checks.EagerError, RuntimeError) as error:
        report.step("map", "skipped", f"measuring it raised {why_failed.shown(getattr(error, 'error', error))}")
        return None


def _measured(source: load.Source, report: Any) -> Found:
    report.progress("measuring its parts")
    start = time.monotonic()
    why = verdict.unusable()
    if why:
        raise RuntimeError(why)
    subject = source.fresh()
    warm_ups = checks.warm_ups_of(subject)
    for number in range(warm_ups):
        checks.eager_call(subject, number, full=False)
    report.step("warm-up", "ok", f"{warm_ups} calls", time.monotonic() - start)
    chains = calibration.Chains()  # before the profiler
    watched, totals = regions.measured(subject, warm_ups)
    prices = chains.prices()
    count = len(watched.regions())
    report.step("map", "ok", f"{count} regions, {totals.launches:.0f} launches a call", time.monotonic() - start)
    return subject, watched, totals, prices


def _free_bytes() -> int:
    """Return what torch can allocate: what the driver has, and what torch holds in its cache."""
    free, _ = torch.cuda.mem_get_info()
    return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


class _Parts:
    """Checks the parts of regions that do not capture; equal parts once."""

    def __init__(self, source: load.Source, subject: load.Subject, end: float, report: Any, answers: dict[int, dict[str, Any]]) -> None:  # fmt: skip
        self._source, self._subject, self._end, self._report, self._answers = source, subject, end, report, answers
        self._alike: dict[Any, int] = {}

    def inside(self, region: Region) -> None:
        """Check what a region calls, and what those call that do not capture."""
        try:
            arguments = self._arguments(region)
        except Exception as error:  # noqa: BLE001 - of the user's code; what is known of the whole stands without it
            said = f"not tried: calling {self._subject.name} once more raised {why_failed.shown(error)}"
            self._answers.update({part.number: {"verdict": "", "said": said} for part in region.parts})
            return
        for part in sorted(region.parts, key=lambda part: -part.cpu):
            if part.number not in arguments:
                continue
            if part.kind == regions.OPTIMIZER:
                self._optimizer(part, arguments[part.number])
            elif part.kind == regions.MODULE:
                self._module(part, arguments[part.number])

    def _optimizer(self, part: Region, given: Arguments) -> None:
        """Check a step with the gradients that it had: the whole call may have dropped them since."""
        before = [(parameter, parameter.grad) for parameter in _parameters(part.owner)]
        for (parameter, _), gradient in zip(before, given.args, strict=True):
            parameter.grad = gradient
        try:
            self._answers[part.number] = self._checked(part, functools.partial(_of_optimizer, part))
        finally:
            for parameter, gradient in before:
                parameter.grad = gradient

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
        try:
            source.reuse(made(), "a part of the program")
            answer = verdict.checked(source, _Silent())
        except Exception as error:  # noqa: BLE001 - memory is short, or the GPU stopped
            return {"verdict": "", "said": f"not tried: preparing it raised {why_failed.shown(error)}"}
        if answer["verdict"] == "safe" and part.launches and not (answer["graph"] or {"nodes": True})["nodes"]:
            return {"verdict": "", "said": "not tried: called alone, it does nothing on the GPU"}
        return answer

    def _arguments(self, region: Region) -> dict[int, Arguments]:
        """Call the whole once more, and copy what the parts of one region are called with."""
        wanted = {(part.kind, id(part.owner)): part.number for part in region.parts}
        found: dict[int, Arguments] = {}
        watched = regions.watch(self._subject)

        def took(part: Region, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            number = wanted.get((part.kind, id(part.owner)))
            at_home = part.parent is not None and part.parent.owner is region.owner
            if number is not None and at_home and number not in found:
                gradients = (
                    tuple(parameter.grad for parameter in _parameters(part.owner)) if part.kind == regions.OPTIMIZER else ()
                )
                found[number] = _arguments(args or gradients, kwargs)

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


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _kind(part: Region, given: Arguments) -> tuple[Any, ...]:
    """Return what two modules have in common that are checked once: class, parameters, mode, and what they are called with."""
    held = (*part.owner.named_parameters(), *part.owner.named_buffers())
    shapes = tuple((name, tuple(value.shape), value.dtype) for name, value in held)
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
