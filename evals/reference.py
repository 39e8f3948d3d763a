"""An agent that knows: it hands in the reference submission, the naive one, or the program as it is.

    python evals/run.py run FOLDER --name right --pack without --times 1 --agent 'python evals/reference.py right {folder}'

With it the tasks themselves are tried on a GPU: every `right` has to pass, `wrong` must not, and `eager` is right at a time of
about 1. The path in the command is seen from the folder in which the agent starts: write it whole.
"""

from __future__ import annotations

import sys
from pathlib import Path

import suite


def main() -> int:
    """Write a known submission for the task of this folder, which runs name by the folder two above it."""
    how, folder = sys.argv[1], Path(sys.argv[2])
    task = suite.task(folder.resolve().parent.parent.name)
    for name, text in {"right": suite.right, "wrong": suite.wrong, "eager": suite.eager}[how](task).items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
