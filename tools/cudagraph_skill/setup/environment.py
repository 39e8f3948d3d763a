"""Ask an interpreter which packages it has and what its torch sees, and the driver which GPUs there are."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import suppress
from typing import Any

from cudagraph_skill.capture.interpreter import DISTRIBUTIONS, answered, interpreter
from cudagraph_skill.errors import SkillError

DEADLINE = 120.0  # seconds; a cold `import torch` from a network disk takes most of a minute
_DRIVER_DEADLINE = 20.0  # seconds; nvidia-smi answers in one, and hangs where the driver does
_QUESTION = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": "%%d.%%d.%%d" %% sys.version_info[:3], "packages": {}}
for package, names in %r.items():
    for name in names:
        try:
            found["packages"].setdefault(package, version(name))
        except PackageNotFoundError:
            pass
try:
    import torch
    found["packages"].setdefault("torch", torch.__version__)
    found["cuda"] = torch.version.cuda or ""
    found["sees"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
except BaseException as error:
    found["failed"] = "%%s: %%s" %% (type(error).__name__, error)
print("\\n" + json.dumps(found))
"""


def facts(python: str, deadline: float = DEADLINE) -> dict[str, Any]:
    """Return what an interpreter says of itself: python, packages, cuda (of torch's build), sees (GPUs), failed (import torch).

    Raises:
        SkillError: It cannot be started, or does not answer (exit code 3).
    """
    out, err = _answer([interpreter(python), "-"], deadline, (_QUESTION % DISTRIBUTIONS).encode())
    with suppress(ValueError, IndexError):
        answer = json.loads(out.decode("utf-8", "replace").strip().split("\n")[-1])
        if isinstance(answer, dict) and "packages" in answer:
            return answer
    last = (err.decode("utf-8", "replace").strip().split("\n") or [""])[-1]
    raise SkillError(f"{python} did not answer as Python does{': ' * bool(last)}{last[:200]}; name another with `--python`", 3)


def gpus() -> list[tuple[str, str]] | None:
    """Return name and driver version of each GPU; None where the machine has no nvidia-smi.

    Raises:
        SkillError: The driver does not answer (exit code 3).
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    out, err = _answer([program, "--query-gpu=name,driver_version", "--format=csv,noheader"], _DRIVER_DEADLINE)
    rows = [line.rsplit(", ", 1) for line in out.decode("utf-8", "replace").splitlines()]
    if not rows or any(len(row) != 2 for row in rows):
        said = (out + err).decode("utf-8", "replace").strip().split("\n")[0]
        raise SkillError(f"nvidia-smi lists no GPU: {said[:200]}", 3)
    return [(name, driver) for name, driver in rows]


def _answer(command: list[str], deadline: float, question: bytes = b"") -> tuple[bytes, bytes]:
    try:
        return answered(command, deadline, question)
    except OSError as error:
        raise SkillError(f"{command[0]}: {error.strerror}", 3) from None
    except subprocess.TimeoutExpired:
        raise SkillError(f"{command[0]} did not answer within {deadline:g} s", 3) from None
