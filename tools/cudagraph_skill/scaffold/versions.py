"""Which releases of torch, Transformer Engine and Megatron-Core an interpreter has, read without importing any of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from typing import Any

from cudagraph_skill.capture import interpreter
from cudagraph_skill.errors import SkillError

DEADLINE = 20.0  # seconds; it takes 0.05 from a warm disk
_ASK = """
import json
from importlib.metadata import PackageNotFoundError, version
found = {}
for package, names in %r.items():
    for name in names:
        try:
            found.setdefault(package, version(name))
        except PackageNotFoundError:
            pass
print(json.dumps(found))
"""
_NAMES = {
    "torch": ("torch",),
    "transformer_engine": ("transformer_engine", "transformer-engine-torch"),  # the second alone where it was built from source
    "megatron_core": ("megatron-core",),
}


def releases(python: str) -> dict[str, str]:
    """Of each of the three that is installed, its version, such as {"torch": "2.11.0+cu130"}.

    Raises:
        SkillError: the interpreter cannot be started, or does not answer (exit code 3).
    """
    command = [interpreter.interpreter(python), "-"]  # not -c: what is no Python would complain about the whole question
    try:
        # In the root folder, because - looks for modules in the current one first, and there may be a json.py.
        process = subprocess.Popen(
            command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
    except OSError as error:
        raise SkillError(f"{python}: {error.strerror}; name the Python that has torch with `--python`", 3) from None
    try:
        out, err = process.communicate((_ASK % _NAMES).encode(), timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        raise SkillError(
            f"{python} did not say within {DEADLINE:g} s which torch it has; name another with `--python`", 3
        ) from None
    finally:
        _end(process)
    with suppress(ValueError):
        found: Any = json.loads(out)
        if isinstance(found, dict):
            return {str(name): str(version) for name, version in found.items()}
    last = (err.decode("utf-8", "replace").strip().split("\n") or [""])[-1]
    raise SkillError(
        f"{python} did not say which torch it has{': ' * bool(last)}{last[:200]}; name a Python 3.10 or newer with `--python`",
        3,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing that the interpreter started stays."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # of the question, which it may not have read
                pipe.close()
