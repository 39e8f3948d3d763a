"""The tasks as data: what an agent is given, and what only the reader of the results and the grader know.

A task is a folder of `tasks/`: `task.md` is the prompt, every other file is given to the agent. Its file in `solutions/` never
is. For a program that file is Python: a submission that is right, whose docstring says where the trap is; a line that ends in
`# wrong: CODE` becomes CODE in the naive submission. For a question it is TOML: `trap`, the accepted values of each field, a
right and a wrong answer.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TASKS, SOLUTIONS = HERE / "tasks", HERE / "solutions"
PACK = Path(".claude", "skills", "cuda-graphs")  # where an agent with the pack finds it, in its folder
PROGRAM, ANSWER = "solution.py", "answer.json"
_SHARED = "capturing.py"  # what the reference solutions have in common
_WRONG = re.compile(r"^(\s*)(.*?)\s+# wrong: (.*)$", re.MULTILINE)
_CONTRACT = {
    PROGRAM: (
        "Work in {folder}, and leave the files there as they are. Write your version to `solution.py` there. It may import "
        "from `program.py` and needs its interface: `build(device)` returns an object with `step(*batch)` and `state()`. "
        "For equal seeds and batches each `step` has to return what the program returns, up to rounding, also when the "
        "results of earlier steps are kept; `state()` too. Batches are those of `batches(count, seed)`, with other seeds. "
        "It is graded on one NVIDIA GPU with PyTorch alone: the same results in every step, then the time of a step and "
        "the memory, against `program.py`. This machine need not have a GPU. Nobody answers questions."
    ),
    ANSWER: (
        "Work in {folder}, and leave the files there as they are. Write your answer to `answer.json` there: one object with "
        "the fields that are asked for. Nobody answers questions."
    ),
}
_NAMED = "The folder {pack} holds a skill for CUDA graphs. Read its SKILL.md first and follow it."


class Task(NamedTuple):
    """Hold a task; `hands_in` is the file that an agent writes, `limits` what the grader asks of a program."""

    name: str
    text: str
    trap: str
    hands_in: str
    limits: dict[str, Any]
    answers: dict[str, Any]

    @property
    def given(self) -> list[Path]:
        """Return the files that an agent is given."""
        return sorted(path for path in (TASKS / self.name).iterdir() if path.is_file() and path.name != "task.md")

    @property
    def digest(self) -> str:
        """Return a hash of what an agent is given and told."""
        parts = [self.text, _CONTRACT[self.hands_in], *(path.read_text(encoding="utf-8") for path in self.given)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


# `steps` are compared, then `rounds` of `calls` are timed in turns with eager, and compared as well. A submission passes
# if it is right, and takes at most `faster` of eager's time and `memory` of its memory and 256 MiB besides. Eager has to
# repeat itself in `least` steps.
LIMITS: dict[str, Any] = {"steps": 24, "rounds": 10, "calls": 6, "least": 24, "faster": 0.9, "memory": 2.0, "seconds": 300}


def names() -> list[str]:
    """Return the names of all tasks."""
    return sorted(path.parent.name for path in TASKS.glob("*/task.md"))


def task(name: str) -> Task:
    """Read one task.

    Raises:
        KeyError: There is none of this name.
    """
    if name not in names():
        raise KeyError(f"no task is named {name}; there are {', '.join(names())}")
    text = (TASKS / name / "task.md").read_text(encoding="utf-8").strip()
    answers = SOLUTIONS / f"{name}.toml"
    if answers.exists():
        table = tomllib.loads(answers.read_text(encoding="utf-8"))
        return Task(name, text, table.pop("trap").strip(), ANSWER, {}, table)
    tree = ast.parse((SOLUTIONS / f"{name}.py").read_text(encoding="utf-8"))
    own = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and _is_limits(node)]
    return Task(name, text, ast.get_docstring(tree) or "", PROGRAM, {**LIMITS, **(own[0] if own else {})}, {})


def _is_limits(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "LIMITS"


def prompt(given: Task, folder: Path, pack: bool) -> str:
    """Return what an agent is told."""
    parts = [given.text, _CONTRACT[given.hands_in].format(folder=folder)]
    return "\n\n".join([*parts, *([_NAMED.format(pack=folder / PACK)] if pack else [])])


def lay_out(given: Task, folder: Path) -> None:
    """Copy what an agent is given into a new folder."""
    folder.mkdir(parents=True)
    for path in given.given:
        shutil.copyfile(path, folder / path.name)


def convention() -> dict[str, Any]:
    """Return the tasks as `evals.json` of the Agent Skills guide has them; graded by this folder's own grader."""
    checks = {
        PROGRAM: [
            "solution.py returns in every step what program.py returns, up to rounding",
            "solution.py takes less time and about the same memory",
        ],
        ANSWER: ["answer.json has the accepted value in every field"],
    }
    cases = [
        {
            "id": number,
            "prompt": given.text,
            "expected_output": f"{given.hands_in}. {' '.join(given.trap.split())}",
            "files": [path.relative_to(ROOT).as_posix() for path in given.given],
            "assertions": checks[given.hands_in],
        }
        for number, given in enumerate(map(task, names()), 1)
    ]
    return {"skill_name": PACK.name, "evals": cases}


# Submissions that are known to be right or wrong --------------------------------------------------------------------


def right(given: Task) -> dict[str, str]:
    """Return the files of the reference submission."""
    if given.hands_in == ANSWER:
        return {ANSWER: given.answers["right"]}
    shared = (SOLUTIONS / _SHARED).read_text(encoding="utf-8")
    return {PROGRAM: (SOLUTIONS / f"{given.name}.py").read_text(encoding="utf-8"), _SHARED: shared}


def wrong(given: Task) -> dict[str, str]:
    """Return the files of the naive submission."""
    if given.hands_in == ANSWER:
        return {ANSWER: given.answers["wrong"]}
    files = right(given)
    return {**files, PROGRAM: _WRONG.sub(r"\1\3", files[PROGRAM])}


def eager(given: Task) -> dict[str, str]:
    """Return the files of a submission that changes nothing."""
    return {ANSWER: "{}"} if given.hands_in == ANSWER else {PROGRAM: "from program import *\n"}
