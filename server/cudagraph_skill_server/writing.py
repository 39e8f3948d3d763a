"""What `scaffold` does: write a program to a folder that the server may use, and verify it; imported with the first call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture import interpreter
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import file as programs
from cudagraph_skill.scaffold import output, receipt, render, rules
from cudagraph_skill.scaffold.options import WORKFLOWS

from cudagraph_skill_server.files import regular
from cudagraph_skill_server.wording import call, in_arguments

if TYPE_CHECKING:
    import threading

    from cudagraph_skill.scaffold.file import Program
    from cudagraph_skill.scaffold.receipt import Receipt
    from cudagraph_skill.text import Steps

    from cudagraph_skill_server.capturing import Captures, Progress
    from cudagraph_skill_server.verifying import Asked


class Writer:
    """Writes and runs programs where `captures` may run code."""

    def __init__(self, captures: Captures, steps: Steps) -> None:
        self._captures, self._steps = captures, steps

    def written(self, asked: Asked) -> tuple[dict[str, Any], str]:
        """Return the program, in its file where it has one, and the command that makes it; or a file that is there already."""
        _refuse(asked)
        path = self._place(asked.path, bool(asked.options["workflow"])) if asked.path else ""
        if not asked.options["workflow"]:
            return {"path": path, "notes": [], "next": ""}, ""
        wanted = programs.options(asked.options)
        if asked.module:
            rules.divisible(wanted)
        if path and asked.module:
            self._place(render.checks_file(path), is_new=True)
            programs.writable_module(path, asked.replace)
        elif path:
            programs.writable(path, asked.replace)
        program = programs.write(wanted, asked.versions, self._captures.python, asked.path, asked.module)
        if path:
            programs.save_program(program, path, asked.replace)
        data = output.program_data(program, path, self._next(program, path, asked))
        data["notes"] = [in_arguments(note) for note in data["notes"]]
        return data, f"skill scaffold {program.command}"

    def _next(self, program: Program, path: str, asked: Asked) -> str:
        if path:
            return call("scaffold", {"path": path, "verify": True})
        if self._captures.allowed:
            beside = {"versions": asked.versions, "module": asked.module, "path": self._free()}
            return call("scaffold", {**program.options._asdict(), **beside})
        processes = programs.processes(program.checks or program.text)
        launch = "python" if processes == 1 else f"torchrun --nproc-per-node {processes}"
        if program.checks:
            return f"save them as step.py and check_step.py, then run: {launch} check_step.py"
        return f"save it as step.py, then run: {launch} step.py"

    def _free(self) -> str:
        """Return the name of a file that is not there yet, nor the checks of such a module."""
        names = ("step.py", *(f"step{number}.py" for number in range(2, 100)))
        return next((name for name in names if not any(map(self._is_there, (name, render.checks_file(name))))), names[-1])

    def _is_there(self, name: str) -> bool:
        return os.path.lexists(self._place(name, is_new=True))

    def checks(self, path: str) -> Path:
        """Return the file whose checks verify the one at `path`; it lies in an allowed folder too."""
        return Path(self._place(str(receipt.checked_by(Path(path))), is_new=False))

    def _place(self, path: str, is_new: bool) -> str:
        """Return the file in an allowed folder that a path means.

        Raises:
            SkillError: it lies elsewhere, no folder is allowed, or what is there is no file.
        """
        inside = [candidate for candidate in self._captures.places(path) if self._captures.folder_of(candidate)]
        if not inside:
            allowed = ", ".join(self._captures.allowed) or "no folder"
            raise SkillError(
                f"{path} may not be written or run: this server does that in {allowed} (`skill serve --allow FOLDER` adds one)"
            )
        if is_new:
            return regular(next((candidate for candidate in inside if Path(candidate).parent.is_dir()), inside[0]))
        return regular(next((candidate for candidate in inside if Path(candidate).is_file()), inside[0]))

    def verified(
        self, file: Path, command: str, deadline: float, progress: Progress, stop: threading.Event
    ) -> tuple[str, dict[str, Any]]:
        """Return the line and the data of a receipt, and keep it beside the program."""
        made = receipt.verify(
            file,
            python=self._captures.python or interpreter.environment_python(),
            deadline=deadline,
            memory=self._captures.memory,
            processes=programs.processes(receipt.program_text(file)),
            command=command,
            on_progress=progress.until(stop),
            cancelled=stop.is_set,
        )
        kept = _kept(made, file)
        step = output.next_step(made, self._steps)
        data = output.data(made, step, kept)
        return output.text(made, step, kept).partition("\n")[0], data


def _kept(made: Receipt, path: Path) -> str:
    """Return where the receipt was written, "" where it could not be: what was shown is told all the same."""
    try:
        return str(receipt.write(made, path))
    except SkillError:
        return ""


def _refuse(asked: Asked) -> None:
    """Check that the arguments go together.

    Raises:
        SkillError: they do not.
    """
    if asked.verify and not asked.path:
        raise SkillError("the receipt is written next to the program: name the file with path")
    if asked.replace and not asked.path:
        raise SkillError("replace=true is for a file: name it with path")
    if asked.options["workflow"]:
        return
    given = [name for name, value in {**asked.options, "versions": asked.versions, "module": asked.module}.items() if value]
    if given and asked.verify:
        raise SkillError(f"{' and '.join(given)} without a workflow: name one, or leave that out to verify what is at path")
    if not asked.verify:
        names = ", ".join(f"{name} ({workflow.summary})" for name, workflow in WORKFLOWS.items())
        raise SkillError(f"name a workflow: {names}; `recommend` says which to take")
