"""The tool `config`: settings of Megatron and Transformer Engine, checked for the releases in use."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cudagraph_skill.config import correct, examine, output
from cudagraph_skill.config.reading import arch_of, read_file
from cudagraph_skill.errors import SkillError
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, Field

TITLE = "Check Megatron settings for your versions"
_SUFFIXES = {"flags": ".sh", "recipe": ".py", "yaml": ".yaml", "json": ".json", "": ""}


class Violated(BaseModel):
    """A constraint that is violated; `explain` knows its id."""

    id: str
    message: str
    fix: str
    line: int
    where: str = ""


class Renamed(BaseModel):
    """A setting or a value that has another name in the release."""

    old: str
    new: str
    message: str
    line: int


class Examined(BaseModel):
    """What `config` found; what stands in `unread` was not checked. `corrected` is the text with all corrections."""

    violations: list[Violated]
    renames: list[Renamed]
    notes: list[str]
    unread: list[str]
    checked_for: dict[str, str | None]
    corrected: str = ""


def config(  # noqa: PLR0913, PLR0917 - arguments of a tool
    text: Annotated[str | None, Field(description="Flags, a shell script, a recipe, YAML or JSON.")] = None,
    path: Annotated[str | None, Field(description="A file with one of these, instead of text.")] = None,
    kind: Annotated[Literal["", "flags", "recipe", "yaml", "json"], Field(description="What the text is, if unclear.")] = "",
    versions: Annotated[
        list[str] | None,
        Field(description='Releases: ["megatron-core==0.18.2", "transformer-engine==2.12"]; else those installed.'),
    ] = None,
    arch: Annotated[str, Field(description="Architecture of the GPU: sm_90.")] = "",
    environment: Annotated[dict[str, str] | None, Field(description="Variables of the run.")] = None,
) -> Annotated[CallToolResult, Examined]:
    """Check the CUDA-graph settings of Megatron-LM, Megatron-Bridge or TransformerConfig for given releases. Runs nothing.

    Name the versions that the user has: constraints and names differ between releases. `unread` says what was not checked.
    """
    if (text is None) == (path is None):
        raise ToolError("give either text or path" + (", not both" if path is not None else ""))
    try:
        given, suffix = read_file(path) if path is not None else (text or "", _SUFFIXES[kind])
        check = partial(
            examine,
            suffix=suffix,
            wanted=versions or (),
            variables=environment or {},
            arch=arch_of(arch) if arch else None,
            path=Path(path).resolve() if path else None,
        )
        report = check(given)
        corrected = correct(given, check).text
    except SkillError as error:
        raise ToolError(str(error).replace("`--for ", "`versions ").replace("skill config: ", "")) from None
    data = Examined(**output.data(report, corrected if corrected != given else ""))
    shown = f"\ncorrected:\n{corrected}" if data.corrected else ""
    return CallToolResult(
        content=[TextContent(type="text", text=output.text(report, path or "text") + shown)],
        structured_content=data.model_dump(),
    )
