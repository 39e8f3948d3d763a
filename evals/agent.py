"""Start an agent on a task, with or without the pack, and read what its transcript says of calls and tokens."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from typing import TYPE_CHECKING, Any

import grading
import suite
from cudagraph_skill.setup import folder as own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Keys of the usage that agents print: Claude Code and the Messages API, Codex, the Responses API, Gemini CLI.
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "prompt")
_OUTPUT = ("output_tokens", "candidates", "thoughts")
_CALLS = ("tool_use", "command_execution", "mcp_tool_call", "file_change", "function_call")  # `type` of a call


def start(task: suite.Task, place: Path, command: str, pack: bool, minutes: float) -> dict[str, Any]:
    """Run the agent in a new folder `place`/work; return the row of this run."""
    shutil.rmtree(place, ignore_errors=True)  # of a run that was cut off
    work = place / "work"
    suite.lay_out(task, work)
    if pack:
        for name, path in own.own_files().items():
            (work / suite.PACK / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, work / suite.PACK / name)
    told = {"{prompt}": suite.prompt(task, work, pack), "{folder}": str(work)}
    words = [_filled(word, told) for word in shlex.split(command)]
    begin = time.monotonic()
    ended = grading.ended(words, work, 60 * minutes, place / "transcript")
    row = {
        "minutes": round((time.monotonic() - begin) / 60, 2),
        "exit": ended.code,
        "submitted": (work / task.hands_in).is_file(),
        "transcript_bytes": (place / "transcript").stat().st_size,
        **usage(ended.output),
    }
    shutil.rmtree(work / suite.PACK, ignore_errors=True)  # the same for all
    return row


def _filled(word: str, told: dict[str, str]) -> str:
    """Replace placeholders; what was put in is not searched again."""
    if word in told:
        return told[word]
    first, found, rest = word.partition("{folder}")
    return f"{first}{told[found]}{_filled(rest, told)}" if found else word


# What a transcript says -----------------------------------------------------------------------------------------------


def usage(transcript: str) -> dict[str, Any]:
    """Return calls, tokens and cost as far as the agent printed JSON that has them; None where it did not.

    An agent that prints totals at the end (`"type": "result"`, or one document) is taken at its word. Else the usage of
    each turn is added: the last of a message, since some agents repeat a message with each of its blocks.
    """
    events = list(_objects(transcript))
    totals = [event for event in events if event.get("type") == "result" and isinstance(event.get("usage"), dict)]
    turns: dict[Any, dict[str, Any]] = {}
    for number, event in enumerate(events):
        message = event.get("message") if isinstance(event.get("message"), dict) else event
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            turns[message.get("id", number)] = message["usage"]
    counted = [total["usage"] for total in totals[-1:]] or list(turns.values()) or [*_models(events)]
    calls = sum(_calls(event) for event in events)
    return {
        "calls": calls or _gemini_calls(events) or (totals[-1].get("num_turns") if totals else None),
        "tokens_in": sum(_number(each, _INPUT) for each in counted) if counted else None,
        "tokens_out": sum(_number(each, _OUTPUT) for each in counted) if counted else None,
        "cost": totals[-1].get("total_cost_usd") if totals else None,
    }


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a transcript: one document, a list of events, or one event a line among other lines."""
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    for part in [whole] if whole is not None else map(_parsed, text.splitlines()):
        yield from (item for item in (part if isinstance(part, list) else [part]) if isinstance(item, dict))


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _number(usage_: dict[str, Any], keys: tuple[str, ...]) -> int:
    return sum(value for key in keys if isinstance(value := usage_.get(key), int))


def _calls(event: dict[str, Any]) -> int:
    """Return how many tool calls an event has; one that only begins is not counted, its end is."""
    item = event.get("item")
    if isinstance(item, dict):
        return int(event.get("type") == "item.completed" and item.get("type") in _CALLS)
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else [event]
    return sum(isinstance(block, dict) and block.get("type") in _CALLS for block in blocks)


def _models(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tokens of each model in the document of Gemini CLI."""
    stats = [event["stats"] for event in events if isinstance(event.get("stats"), dict)]
    models = [model for stat in stats for model in (stat.get("models") or {}).values() if isinstance(model, dict)]
    return [model["tokens"] for model in models if isinstance(model.get("tokens"), dict)]


def _gemini_calls(events: list[dict[str, Any]]) -> int:
    tools = [event["stats"].get("tools") for event in events if isinstance(event.get("stats"), dict)]
    return sum(tool.get("totalCalls", 0) for tool in tools if isinstance(tool, dict))
