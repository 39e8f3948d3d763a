"""The steps of the check after the replays, one line each: nodes, inputs, a second capture, numbers, modes, random numbers."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.capture.guest import checks, state, tensors, why_failed

if TYPE_CHECKING:
    from cudagraph_skill.capture.guest import load
    from cudagraph_skill.capture.guest.checks import Observations
    from cudagraph_skill.capture.guest.nodes import Nodes


def run(source: load.Source, observations: Observations, report: Any) -> None:
    """Report the checks after the replays, one line each: numbers, modes, random numbers, a second capture."""
    captured = observations.captured
    nodes = _nodes_shown(captured.nodes)
    unread = "cuda.bindings is not there, or this torch keeps no graph to read"
    report.step("nodes", "ok" if nodes else "skipped", nodes or unread)
    wrong = observations.wrong.calls if observations.wrong else []
    report.step("same inputs", "differs" if 0 in wrong else "ok", "replay on the inputs of the capture")
    later = [call for call in wrong if call]
    replays = f"{len(captured.calls) - 1} replays, freed memory overwritten before each"
    report.step("new inputs", "differs" if later else "ok", replays + f"; not eager's to the bit: {later}" * bool(later))
    _again(source, observations, report)
    report.step("numbers", "differs" if captured.stuck or captured.numbers else "ok", _numbers_shown(source, observations))
    _modes(source, report)
    _random(observations, report)


def _nodes_shown(nodes: Nodes | None) -> str:
    if nodes is None:
        return ""
    host = f", {nodes.host_copies} of them out of host memory" if nodes.host_copies else ""
    listed = [f"{count} {kind}" + host * (kind == "memcpy") for kind, count in sorted(nodes.kinds.items())]
    return ", ".join(listed) or "none: the graph is empty"


def _numbers_shown(source: load.Source, observations: Observations) -> str:
    """Describe which arguments are Python numbers, and whether another number changes eager's result."""
    if observations.captured.stuck or observations.captured.numbers:
        return (*observations.captured.stuck, *observations.captured.numbers)[0]
    numbers = {
        path: number
        for path, number in tensors.numbers(observations.captured.static).items()
        if isinstance(number, (int, float))
    }
    if not numbers:
        return "no argument is a Python number"
    deciding = [path for path in numbers if _changes_result(source, path)]
    if deciding:
        return f"argument {', '.join(deciding)} is a Python number that changes the result: the graph keeps that of the capture"
    return f"argument {', '.join(numbers)} is a Python number; another one made no difference"


def _changes_result(source: load.Source, path: str) -> bool:
    """Return whether an eager call with another number at this path of its arguments has another outcome."""
    if not source.builds_anew:
        return False  # a third call on the user's own objects is not worth the answer
    left = []
    for change in (False, True):
        subject = source.fresh()
        args = checks.arguments(subject, 0)
        with suppress(Exception):
            left.append(
                checks.eager_call(subject, 0, full=False, given=tensors.other_number(args, path) if change else args).left()
            )
    return len(left) == 2 and any(far > 0 for far in tensors.differences(*left).values())


def _modes(source: load.Source, report: Any) -> None:
    roots = source.last_roots
    modules = [layer for _, layer in state.walk(roots) if isinstance(layer, torch.nn.Module)] if roots else []
    kinds = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase)
    affected = [layer for layer in modules if isinstance(layer, kinds)]
    if not affected:
        report.step("modes", "ok", "no layer that train() and eval() change")
        return
    mode = "train" if affected[0].training else "eval"
    report.step(
        "modes",
        "ok",
        f"captured in {mode} mode with {len(affected)} layers that it changes: the other mode needs a graph of its own",
    )


def _random(observations: Observations, report: Any) -> None:
    """Report whether two replays in a row on the same inputs draw different numbers."""
    moves = observations.captured.moves_on
    if moves is None:
        report.step("random", "skipped", "the call draws no random numbers on the GPU")
        return
    moves = moves or "cuda-random" not in observations.moved  # another rank's call drew
    report.step("random", "ok" if moves else "differs", "the generator of the GPU moves on with each replay")


def _again(source: load.Source, observations: Observations, report: Any) -> None:
    """Capture the same callable a second time and report the outcome."""
    start, subject = time.monotonic(), source.last
    if subject is None:
        return
    try:
        attempt = checks.capture(subject, observations.warm_ups)
        outcome, message = (
            ("ok", "captures again")
            if attempt.error is None
            else ("failed", why_failed.shown(why_failed.innermost(attempt.error)))
        )
    except BaseException as error:  # noqa: BLE001 - of the user's code
        outcome, message = "failed", why_failed.shown(error)
    report.step("second capture", outcome, message, time.monotonic() - start)
