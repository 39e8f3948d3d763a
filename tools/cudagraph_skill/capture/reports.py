"""Read what the guest reports. The pipe is open in the user's process, which can write anything into it."""

from __future__ import annotations

import json
from typing import Any

LONGEST = 32 << 20  # bytes of one report; a result has a few thousand

_NUMBER = (int, float)
EVENTS: dict[str, dict[str, Any]] = {  # of a guest
    "ready": {},
    "unfit": {"said": str},
    "progress": {"said": str},
    "step": {"name": str, "outcome": str, "said": str, "seconds": _NUMBER},
    "draft": {},
    "result": {},
    "ended": {"how": str, "detail": str, "stack": list, "left_behind": int},
}
_TARGET = {"path": str, "line": int, "name": str}
_GRAPH = {"nodes": dict, "host_copies": int}
_ROUNDS = {
    "replayed": int,
    "wrong": list,
    "worst": _NUMBER,
    "tolerance": _NUMBER,
    "path": str,
    "changing": dict,
    "moved": list,
    "moves": _NUMBER,
    "agreement": str,
}
_LIBRARY = {"path": str, "line": int, "function": str, "package": str, "version": str}
_LINE = {"path": str, "function": str}
_CAUSE = {"kind": str, "category": str, "path": str, "line": int, "op": str, "error": str, "said": str, "via": list}


def parsed(line: bytes, events: dict[str, dict[str, Any]] = EVENTS) -> dict[str, Any] | None:
    """Return the event that a line reports; None for a line that is none, such as one that a killed writer left unfinished.

    `events` has for each kind the fields that it must have, with their types.
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    kind = event.get("event") if isinstance(event, dict) else None
    return event if isinstance(kind, str) and kind in events and _has(event, events[kind]) else None


def is_result(result: dict[str, Any]) -> bool:
    """Return whether the parts of a result have the types that are read from them."""
    parts: dict[str, dict[str, Any]] = {"target": _TARGET, "graph": _GRAPH, "rounds": _ROUNDS, "machine": {}}
    causes, notes, signatures, libraries = (result.get(name, []) for name in ("causes", "notes", "signatures", "libraries"))
    return (
        _has(result, {"verdict": str, "said": str})
        and all(_is_part(result.get(name), kinds) for name, kinds in parts.items())
        and isinstance(notes, list)
        and _is_by_file(result.get("passed_over", {}))
        and isinstance(signatures, list)
        and all(isinstance(row, dict) for row in signatures)
        and isinstance(libraries, list)
        and all(isinstance(line, dict) and _has(line, _LINE) for line in libraries)
        and isinstance(causes, list)
        and all(
            isinstance(cause, dict) and _has(cause, _CAUSE) and _is_part(cause.get("library"), _LIBRARY) for cause in causes
        )
    )


def _is_by_file(lines: Any) -> bool:
    return isinstance(lines, dict) and all(isinstance(numbers, list) for numbers in lines.values())


def _is_part(part: Any, kinds: dict[str, Any]) -> bool:
    return part is None or (isinstance(part, dict) and (not part or _has(part, kinds)))


def _has(part: dict[str, Any], kinds: dict[str, Any]) -> bool:
    return all(isinstance(part.get(name), kind) for name, kind in kinds.items())
