"""How a tool answers: the answer once, as data with a line of text beside it, or as text alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, TextContent

from cudagraph_skill_server.bounding import is_empty, short
from cudagraph_skill_server.definitions import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPED_SINCE = "2025-06-18"  # protocol versions before it know no structured content


def told(tool: str, line: str, data: Mapping[str, Any]) -> CallToolResult:
    """Return an answer: its fields as OUTPUTS has them, and one or two lines that say what came out."""
    kept = {}
    for field in OUTPUTS[tool]:
        name = field.removesuffix("?")
        value = short(data[name]) if name in data else None
        if not field.endswith("?") or not is_empty(value):
            kept[name] = value
    return CallToolResult(content=[TextContent(type="text", text=line)], structured_content=kept)


def delivered(result: CallToolResult, as_text: bool) -> CallToolResult:
    """Return an answer as the client can take it: where it shows text alone, the data are the text."""
    if not as_text or result.structured_content is None:
        return result
    text = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(type="text", text=text)])


def is_untyped(protocol: str | None) -> bool:
    """Return whether a client speaks a protocol without structured content; versions are dates."""
    return protocol is not None and protocol < _TYPED_SINCE
