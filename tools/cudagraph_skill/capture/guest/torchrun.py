"""Start the ranks of a program with torchrun, each as `start.py rank PROGRAM ARGUMENTS`."""

from __future__ import annotations

import os
import sys
from typing import Any

from cudagraph_skill.capture.guest.readiness import gpus, without_torch

_START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")


def run(request: dict[str, Any], report: Any) -> None:
    """Run `request["arguments"]` with the options and the ranks' interpreter flags in `request["launch"]`; report what is lacking."""
    missing = without_torch()
    if missing:
        report.result({"verdict": "lacking", "said": missing})
        return
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    options, flags = request["launch"]["options"], request["launch"]["flags"]
    sys.argv = ["torchrun"]  # as its own messages name it
    ours = ["--max-restarts=0", "--no-python", sys.executable, *flags, "-u", _START, "rank"]
    arguments = torchrun.parse_args([*options, *ours, *request["arguments"]])
    verdict, sentence = _unfit(torchrun, arguments)
    if verdict:
        report.result({"verdict": verdict, "said": sentence})
        return
    try:
        torchrun.run(arguments)
    except ChildFailedError as error:  # the ranks themselves have told the host more
        raise SystemExit(1) from error


def _unfit(torchrun: Any, arguments: Any) -> tuple[str, str]:
    """Return a verdict and a sentence if these ranks cannot be checked here, else empty ones."""
    most = torchrun.parse_min_max_nnodes(arguments.nnodes)[1]
    if most > 1:
        return "misuse", f"the check runs on one machine, and torchrun was given --nnodes {arguments.nnodes}: use `--nnodes 1`"
    seen, missing = gpus()
    if missing:
        return "lacking", missing
    ranks = torchrun.determine_local_world_size(arguments.nproc_per_node)
    if 0 < seen < ranks:
        return "lacking", f"torch sees {seen} GPU{'s' * (seen > 1)} here, and {ranks} ranks need one each: start fewer ranks"
    return "", ""
