"""What a submission to a task of evals/ gives, in this process: what its child process does, on a CPU.

The runs of one program serve all submissions to it that a test makes.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest
import suite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@contextlib.contextmanager
def children() -> Iterator[Any]:
    """Import what runs in the child processes; modules and process groups that a program made go away."""
    torch = pytest.importorskip("torch")
    import child

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a child process
    yield child
    torch.set_num_threads(threads)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name in ("program", "solution", "capturing", "_program", "_program_to_time"):
        sys.modules.pop(name, None)


class Program:
    """Run a program with a seed, and submissions to it."""

    def __init__(self, task: suite.Task, seed: int, steps: int) -> None:
        import child

        self.child, self.task = child, task
        self.settings: dict[str, Any] = {"device": "cpu", "seed": seed, "steps": steps, "rounds": 1, "calls": 2}
        self.module = child.imported(suite.TASKS / task.name, "program", "_program")
        self.runs, _ = child.eager(self.module, self.settings)

    def results(self, files: dict[str, str], folder: Path) -> dict[str, Any]:
        """Return what a submission gives, with its files in a new folder."""
        for name in ("program", "solution", "capturing"):
            sys.modules.pop(name, None)
        suite.lay_out(self.task, folder)
        sys.path.insert(0, str(write(folder, files)))
        try:
            kept, times = self.child.submission(folder, self.module, self.settings)
        finally:
            sys.path.remove(str(folder))
        assert len(times["seconds"]) == len(times["eager"]) == self.settings["rounds"]
        actual: dict[str, Any] = kept
        return actual
