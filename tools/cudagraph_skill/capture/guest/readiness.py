"""Say whether this interpreter and this machine can run the check: torch, its version, GPUs."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from cudagraph_skill.capture.guest.processes import fork, sweep

OLDEST_TORCH = (2, 4)


def readiness() -> dict[str, Any]:
    """Return the ready event, or the unfit event that says what is missing and what to do."""
    missing = without_torch()
    if missing:
        return _unfit(missing)
    import torch

    cuda = torch.version.cuda or ""
    count, missing = gpus()
    if missing:
        return _unfit(missing)
    python = ".".join(map(str, sys.version_info[:3]))
    return {"event": "ready", "torch": str(torch.__version__), "cuda": cuda, "python": python, "gpus": count}


def _unfit(sentence: str) -> dict[str, Any]:
    return {"event": "unfit", "said": sentence}


def without_torch() -> str:
    """Import torch; return why that cannot be done or will not do, as one sentence, or ""."""
    return " ".join(_without_torch().split())


def _without_torch() -> str:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return f"`import torch` fails in {sys.executable}: {error}"
        return (
            f"{sys.executable} has no torch: name the Python that has it with `--python`, or install torch >=2.4 for this one"
        )
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything, often OSError
        return f"`import torch` fails in {sys.executable}: {type(error).__name__}: {error}"
    version = str(getattr(torch, "__version__", "0"))
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_TORCH:
        return f"{sys.executable} has torch {version}, and the check needs torch 2.4 or newer"
    return ""


def gpus() -> tuple[int, str]:
    """Count the GPUs that torch sees, or return 0 and why it sees none, as one sentence."""
    if os.environ.get("CUDAGRAPH_SKILL_NO_GPU_NEEDED"):  # set by tests only
        return 0, ""
    import torch

    count, missing = _gpus(torch.version.cuda or "")
    return count, " ".join(missing.split())


def _gpus(cuda: str) -> tuple[int, str]:
    """Count the GPUs that torch sees, or return 0 and why. Runs in a fork, because asking may initialise CUDA."""
    if not cuda:
        return (
            0,
            f"the torch of {sys.executable} was built without CUDA: install a CUDA build, or name another Python with `--python`",
        )
    reading, writing = os.pipe()
    if not fork():
        os.write(writing, json.dumps(_count_gpus()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    sweep()
    count, why = json.loads(answer or '[0, "asking the driver for them crashed"]')
    return (
        count,
        "" if count else f"torch sees no GPU ({why}): run this on a machine with an NVIDIA GPU that CUDA_VISIBLE_DEVICES names",
    )


def _count_gpus() -> tuple[int, str]:
    import torch

    try:
        count = torch.cuda.device_count()
        if not count:
            torch.cuda.init()
    except Exception as error:  # noqa: BLE001 - whatever the driver says is the answer
        return 0, (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return count, "it counts none"
