"""The MCP tool `scaffold`: a program for a workflow, written to a folder that the server may use, and verified on the GPU."""

from __future__ import annotations

import inspect
import os
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from cudagraph_skill.capture import interpreter
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import file as programs
from cudagraph_skill.scaffold import output, receipt, render, rules
from cudagraph_skill.scaffold.options import OPTIONS, WORKFLOWS, Option, Options
from mcp.server.mcpserver import Context  # noqa: TC002 - the SDK reads the annotation to know where it goes
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult  # noqa: TC002 - the SDK reads the annotation
from pydantic import Field, StrictInt

from cudagraph_skill_server.answering import told
from cudagraph_skill_server.capturing import Captures, Progress
from cudagraph_skill_server.files import regular
from cudagraph_skill_server.limits import Threads
from cudagraph_skill_server.wording import argument, call, in_arguments

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable

    from cudagraph_skill.scaffold.file import Program
    from cudagraph_skill.scaffold.receipt import Receipt
    from cudagraph_skill.scaffold.recommend import Recommendation
    from cudagraph_skill.text import Steps

_Tool = TypeVar("_Tool", bound="Callable[..., Awaitable[CallToolResult]]")


class _Asked(NamedTuple):
    """A call of the tool: options as `programs.options` takes them, and where the program goes."""

    options: dict[str, Any]
    versions: list[str]
    module: bool
    path: str
    replace: bool
    verify: bool

    def beside(self) -> dict[str, Any]:
        """Return what was asked for beside the options."""
        return {name: value for name, value in self._asdict().items() if value and name != "options"}


_MOST = 1024  # an upper bound for options that are numbers
_BRIEF = {  # in place of the help of the command: a name that says enough needs no words
    "training": "Default: inference.",
    "accumulate": "Microbatches of a step.",
    "rng": "Separate torch.Generator.",
    "partial": "One part cannot be captured.",
    "buckets": "A graph for each input size.",
    "decode": "With a KV cache.",
    "pool": "Graphs share one.",
    **dict.fromkeys(("amp", "ddp", "fsdp", "fp8"), ""),
}


def _with_options(tool: _Tool) -> _Tool:
    """Show an argument for each row of OPTIONS in the signature that the SDK reads, in place of `**options`."""
    signature = inspect.signature(tool, eval_str=True)
    *arguments, _ = signature.parameters.values()
    positional = [argument for argument in arguments if argument.kind is not Parameter.KEYWORD_ONLY]
    named = arguments[len(positional) :]
    options = [_option_argument(name, option) for name, option in OPTIONS.items()]
    tool.__signature__ = signature.replace(parameters=[*positional, *options, *named])  # type: ignore[attr-defined]
    return tool


def _option_argument(name: str, option: Option) -> Parameter:
    """Return the argument of the tool for one option: a flag, a number, or one of several words."""
    description = _BRIEF.get(name, option.help)
    default, *others = option.values
    annotation: Any = Annotated[bool, Field(description=description)]
    if isinstance(default, str):
        default, annotation = None, Annotated[Literal[*others] | None, Field(description=description)]
    elif not isinstance(default, bool):
        annotation = Annotated[int, Field(ge=0, le=_MOST, description=description)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


class Programs:
    """The programs of one server; it writes and runs where `captures` may run code, and has the GPU in turn with them."""

    def __init__(self, captures: Captures, steps: Steps) -> None:
        self._captures, self._steps = captures, steps
        self._threads = Threads()

    @_with_options
    async def scaffold(  # noqa: PLR0913 - arguments of a tool
        self,
        context: Context,
        workflow: Annotated[
            str | StrictInt | None,
            Field(description=f"{', '.join(WORKFLOWS)}. None: verify path."),
        ] = None,
        *,
        versions: Annotated[list[str] | str | None, Field(description='["torch==2.6"]; default: installed ones.')] = None,
        module: Annotated[bool, Field(description="A module, and its checks in check_FILE.")] = False,
        path: Annotated[str | None, Field(description="File, in an allowed folder.")] = None,
        replace: bool = False,
        verify: Annotated[bool, Field(description="Run its checks on the GPU.")] = False,
        deadline: Annotated[float, Field(gt=0, le=3600)] = 600,
        **options: Any,
    ) -> CallToolResult:
        """Write a working CUDA-graph program for a workflow and options, with its checks against eager; or verify one."""
        options["workflow"] = str(workflow or "")
        asked = _Asked(options, _each(versions or []), module, path or "", replace, verify)
        try:
            data, command = await self._threads.run(lambda: self._written(asked))
            line = "\n".join([*data["notes"], f"next: {data['next']}"])
            if verify:
                progress, file = Progress(context), self._checks(data["path"])
                line, made = await self._captures.in_turn(
                    context, lambda stop: self._verified(file, command, deadline, progress, stop)
                )
                data |= {"verified": made, "next": made["next"]}
        except SkillError as error:
            raise ToolError(in_arguments(str(error), asked.beside())) from None
        return told("scaffold", line, data)

    def _written(self, asked: _Asked) -> tuple[dict[str, Any], str]:
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

    def _next(self, program: Program, path: str, asked: _Asked) -> str:
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

    def _checks(self, path: str) -> Path:
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

    def _verified(
        self, file: Path, command: str, deadline: float, progress: Progress, stop: threading.Event
    ) -> tuple[str, dict[str, Any]]:
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


# Words of the tools -----------------------------------------------------------------------------------------------------


def _each(versions: list[str] | str) -> list[str]:
    """Return the requirements of a list, or of one text that has commas between them."""
    texts = [versions] if isinstance(versions, str) else versions
    return [requirement.strip() for text in texts for requirement in text.split(",")]


def _refuse(asked: _Asked) -> None:
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


def spelled(options: Options) -> str:
    """Return the call that asks for a program."""
    return call("scaffold", options._asdict())


def recommended(advice: Recommendation) -> Recommendation:
    """Return the same in words of the tools."""
    return advice._replace(
        notes=tuple(map(in_arguments, advice.notes)),
        questions={_arguments(options): asks for options, asks in advice.questions.items()},
    )


def _arguments(options: str) -> str:
    return ", ".join(map(argument, options.split(", ")))
