"""What clients are told of the tools before any call, kept short since every conversation pays for it: schemas and hints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import ToolAnnotations

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mcp_types import Tool

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# It runs the user's own code, which may write or delete what its owner may.
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

# The fields of each answer. Those with "?" are left out where they would be empty, and those without a type are sent unlisted.
OUTPUTS: dict[str, dict[str, str]] = {
    "search": {"results": "array", "nearest?": "array", "corrected?": "object", "next?": "string"},
    "read": {"sections": "array", "next?": "string"},
    "errors": {"diagnoses": "array", "where?": "string", "decide?": "string", "note?": "string"},
    "explain": {"sections": "array"},
    "check": {
        "verdict": "string",
        "summary": "string",
        "findings": "array",
        "regions": "array",
        "notes?": "array",
        "unread?": "array",
        "left_out?": "object",
        "next": "string",
    },
    "config": {
        "violations": "array",
        "renames": "array",
        "notes?": "array",
        "unread?": "array",
        "checked_for": "object",
        "corrected?": "string",
        "left_out?": "object",
    },
    "recommend": {
        "workflow": "string",
        "number": "integer",
        "why": "string",
        "notes?": "array",
        "instead?": "array",
        "questions?": "array",
        "next": "string",
    },
    "scaffold": {
        "workflow?": "string",
        "options?": "object",
        "versions?": "object",
        "program?": "string",
        "checks?": "string",
        "path?": "string",
        "notes?": "array",
        "verified?": "object",
        "next": "string",
    },
    "run_check": {
        "verdict": "string",
        "summary": "string",
        "target?": "object",
        "findings?": "array",
        "unconfirmed?": "array",
        "ladder?": "",
        "graph?": "",
        "rounds?": "",
        "map?": "object",
        "decision?": "object",
        "tuning?": "object",
        "machine?": "object",
        "notes?": "array",
        "signatures?": "",
        "ranks?": "",
        "left_out?": "object",
        "next": "string",
    },
    "run_bench": {"verdict": "string", "results": "array", "says": "array", "machine?": "object", "next": "string"},
}

# Names that models give an argument instead of ours. A tool that has an argument of the other name takes it as that.
ALIASES: dict[str, tuple[str, ...]] = {
    "question": ("query", "q", "text", "prompt"),
    "limit": ("k", "top_k", "max_results"),
    "ref": ("reference", "path", "section", "uri"),
    "log": ("text", "error", "message", "symptom", "question", "query"),
    "name": ("id", "code", "error", "query"),
    "path": ("file", "target", "filename", "file_path"),
    "source": ("code", "snippet"),
    "function": ("name", "symbol"),
    "text": ("config", "flags", "settings"),
    "versions": ("version", "releases"),
}


def lean(tool: Tool) -> Tool:
    """Return the definition with nothing in its schemas that a caller can do without."""
    given = tool.input_schema
    arguments = {"type": "object", "properties": {name: _argument(each) for name, each in given["properties"].items()}}
    required = {"required": given["required"]} if "required" in given else {}
    fields = {name.removesuffix("?"): {"type": kind} for name, kind in OUTPUTS[tool.name].items() if kind}
    answer = {"type": "object", "properties": fields}
    return tool.model_copy(update={"input_schema": {**arguments, **required}, "output_schema": answer})


def renamed(arguments: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the arguments with each that a tool does not have under the name that it stands for, where that one is free."""
    ours = dict(arguments)
    for name in arguments:
        meant = next((own for own in known if own not in ours and name in ALIASES.get(own, ())), None)
        if name not in known and meant is not None:
            ours[meant] = ours.pop(name)
    return ours


def _argument(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first type that an argument may have, the words to choose from and the description.

    Refusals tell bounds, and null means left out. Some clients take neither several types nor words without one.
    """
    kind = next(each for each in schema.get("anyOf", [schema]) if each.get("type") != "null")
    kept = {key: kind[key] for key in ("type", "enum", "items") if key in kind}
    return kept | ({"description": schema["description"]} if schema.get("description") else {})
