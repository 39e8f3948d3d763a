"""The tool `config`: settings of Megatron and Transformer Engine, checked for the releases in use."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cudagraph_skill.errors import SkillError
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult  # noqa: TC002 - the SDK reads the annotation
from pydantic import Field

from cudagraph_skill_server.answering import bounded, told

_SUFFIXES = {"flags": ".sh", "recipe": ".py", "yaml": ".yaml", "json": ".json", "": ""}


def config(  # noqa: PLR0913, PLR0917 - arguments of a tool
    text: Annotated[str | None, Field(description="Flags, script, recipe, YAML or JSON.")] = None,
    path: Annotated[str | None, Field(description="Or a file of these.")] = None,
    kind: Annotated[Literal["", "flags", "recipe", "yaml", "json"], Field(description="Of the text.")] = "",
    versions: Annotated[
        list[str] | None,
        Field(description='["megatron-core==0.18.2"]; default: installed ones.'),
    ] = None,
    arch: Annotated[str, Field(description="Of the GPU: sm_90.")] = "",
    environment: dict[str, str] | None = None,
) -> CallToolResult:
    """Check CUDA-graph settings of Megatron-LM, Megatron-Bridge or TransformerConfig for the user's releases. Runs nothing."""
    from cudagraph_skill.config import correct, examine, output
    from cudagraph_skill.config.reading import arch_of, read_file

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
    line = output.text(report, path or "text").rpartition("\n")[2]
    data = output.data(report, corrected if corrected != given else "")
    return told("config", line, bounded(data, "violations"))
