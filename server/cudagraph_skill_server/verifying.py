"""The MCP tool `scaffold`: a program for a workflow, written to a folder and verified on the GPU; `writing` does that."""

from __future__ import annotations

import inspect
from functools import cached_property
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold.options import OPTIONS, WORKFLOWS, Option, Options
from mcp.server.mcpserver import Context  # noqa: TC002 - the SDK reads the annotation to know where it goes
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult  # noqa: TC002 - the SDK reads the annotation
from pydantic import Field, StrictInt

from cudagraph_skill_server.answering import told
from cudagraph_skill_server.capturing import Captures, Progress
from cudagraph_skill_server.limits import Threads
from cudagraph_skill_server.wording import argument, call, in_arguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cudagraph_skill.scaffold.recommend import Recommendation
    from cudagraph_skill.text import Steps

    from cudagraph_skill_server.writing import Writer

_Tool = TypeVar("_Tool", bound="Callable[..., Awaitable[CallToolResult]]")
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


class Asked(NamedTuple):
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


class Programs:
    """The programs of one server; it writes and runs where `captures` may run code, and has the GPU in turn with them."""

    def __init__(self, captures: Captures, steps: Steps) -> None:
        self._captures, self._steps = captures, steps
        self._threads = Threads()

    @cached_property
    def _writer(self) -> Writer:
        from cudagraph_skill_server.writing import Writer

        return Writer(self._captures, self._steps)

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
        asked = Asked(options, _each(versions or []), module, path or "", replace, verify)
        writer = self._writer
        try:
            data, command = await self._threads.run(lambda: writer.written(asked))
            line = "\n".join([*data["notes"], f"next: {data['next']}"])
            if verify:
                progress, file = Progress(context), writer.checks(data["path"])
                line, made = await self._captures.in_turn(
                    context, lambda stop: writer.verified(file, command, deadline, progress, stop)
                )
                data |= {"verified": made, "next": made["next"]}
        except SkillError as error:
            raise ToolError(in_arguments(str(error), asked.beside())) from None
        return told("scaffold", line, data)


def _each(versions: list[str] | str) -> list[str]:
    """Return the requirements of a list, or of one text that has commas between them."""
    texts = [versions] if isinstance(versions, str) else versions
    return [requirement.strip() for text in texts for requirement in text.split(",")]


# Words of the tools -----------------------------------------------------------------------------------------------------


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
