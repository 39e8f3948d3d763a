"""Find the interpreter that runs the user's code, and ask it and other programs of the machine what they know."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from cudagraph_skill.errors import SkillError

DISTRIBUTIONS = {  # of each package, the names under which it is installed
    "torch": ("torch",),
    "cuda_bindings": ("cuda-bindings",),
    "transformer_engine": ("transformer-engine", "transformer-engine-torch"),  # a source build installs only the second
    "megatron_core": ("megatron-core",),
    "megatron_bridge": ("megatron-bridge",),
}


def environment_python() -> str:
    """Return the active venv's or conda's interpreter, else this one if it has torch, else python3.

    Raises:
        SkillError: there is none.
    """
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        path = Path(os.environ.get(variable) or "/nowhere", "bin", "python")
        if path.is_file():
            return str(path)
    python = sys.executable if find_spec("torch") else shutil.which("python3")
    if python is None:
        raise SkillError(
            "no python3 is on the PATH, and no environment is active: name the interpreter that has torch with `--python`", 3
        )
    return python


def interpreter(python: str) -> str:
    """Return the named interpreter as an absolute path; a link is kept, because it identifies a virtual environment.

    Raises:
        SkillError: a folder was named, or there is no program of that name (exit code 3).
    """
    path = os.path.expanduser(python)  # noqa: PTH111 - Path's own raises where there is no such user
    is_folder = os.path.isdir(path)  # noqa: PTH112 - Path's own raises where the name is too long
    program = str(Path(path).absolute()) if "/" in path else shutil.which(path)
    if program and not ("/" in path and is_folder):
        return program
    why = "that is a folder" if is_folder else "there is no such program on the PATH"
    raise SkillError(f"{python}: {why}; name the Python that has torch, such as `--python .venv/bin/python`", 3)


def resolved(python: str) -> str:
    """Return the path of an interpreter on the PATH."""
    program = shutil.which(python)
    if program is None:
        raise SkillError(f"{python}: there is no such interpreter; name one that has torch", 3)
    return program


def answered(command: list[str], deadline: float, question: bytes = b"") -> tuple[bytes, bytes]:
    """Return what a program prints on stdout and stderr; it is killed, with what it started, at the deadline in seconds.

    It runs in the root folder: a Python that reads its program from stdin finds no json.py or torch.py of the user there.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it did not end in time.
    """
    process = subprocess.Popen(
        command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )
    try:
        return process.communicate(question, timeout=deadline)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):  # closing flushes a question that was not read
                    pipe.close()
