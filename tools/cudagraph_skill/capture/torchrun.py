"""Read the command line of torchrun: its options, and where the program begins."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Sequence

TORCHRUN = "torch.distributed.run"  # what `torchrun` is, as a module
_WITHOUT_VALUE = {"--standalone"}  # of the options that stay; each other one has a value
_MODULE = {"-m", "--module"}
_OTHER_PROGRAM = {"--no-python", "--no_python", "--run-path", "--run_path"}
_NPROC = ("--nproc-per-node", "--nproc_per_node")


def divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Divide the words after `torchrun` into its options and the program, as `script args` or `-m mod args`.

    Raises:
        SkillError: there is no program, or none that can be watched.
    """
    options: list[str] = []
    module, place = False, 0
    while place < len(words) and words[place].startswith("-"):
        word = words[place]
        if word in _OTHER_PROGRAM:
            raise SkillError(f"skill check: {word} lets torchrun start it in another way: leave that option out")
        wide = 1 if word in _WITHOUT_VALUE | _MODULE or _has_value(word) else 2
        module = module or word in _MODULE
        options += [] if word in _MODULE else words[place : place + wide]
        place += wide
    program = list(words[place:])
    if not program:
        raise SkillError("skill check: torchrun is given no program: write `-- torchrun OPTIONS SCRIPT ARGUMENTS`")
    return options, ["-m", *program] if module else program


def _has_value(word: str) -> bool:
    """Return whether a word has its value in it, such as `--nnodes=1` or `-r3`."""
    return "=" in word or (not word.startswith("--") and len(word) > 2)


def ranks(options: Sequence[str]) -> str:
    """Return what the options say about the number of ranks on a machine; "" if nothing."""
    named = ""
    for number, option in enumerate(options):
        name, given, value = option.partition("=")
        if name in _NPROC:
            named = value if given else next(iter(options[number + 1 :]), "")
    return named


def interpreter(command: str) -> str:
    """Return the interpreter in the first line of an installed `torchrun`; "" if it has none."""
    path = shutil.which(command)
    if path is None:
        raise SkillError(f"{command}: there is no such command: give its path, or `python -m {TORCHRUN}`")
    try:
        first = Path(path).read_bytes()[:400].partition(b"\n")[0].decode()
    except (OSError, ValueError):
        return ""
    python = first.removeprefix("#!").strip()
    return python if first.startswith("#!/") and " " not in python and Path(python).is_file() else ""
