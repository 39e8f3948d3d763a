"""Read configurations from YAML and JSON: `MODEL_ARGS` with flags, sections as Bridge has them, or fields of TransformerConfig.

Only plain values are read. A tag that would make an object is refused; so is a document that is larger than a configuration.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.config.input import command_line
from cudagraph_skill.config.settings import Form, Reading, Setting, Span, Unread
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

LARGEST = 2_000_000  # characters
_MOST_NODES = 20_000  # values, with those behind aliases counted each time
_DEEPEST = 60
_PLAIN = "tag:yaml.org,2002:"
_SECTIONS = (
    "model rng ddp optimizer train training comm_overlap rerun_state_machine dataset mixed_precision checkpoint logger dist "
    "scheduler validation tokenizer"
).split()


class _Entry(NamedTuple):
    """One value of a document under its path."""

    path: tuple[str, ...]
    value: object
    line: int
    span: Span | None


def readings(text: str, *, bridge: bool, is_json: bool) -> list[Reading]:
    """Return the configuration of a document.

    Raises:
        SkillError: It cannot be parsed, is too large, or has a tag that would make an object.
    """
    if is_json:
        _check_json(text)
    entries = list(_entries(text))
    flags = [entry for entry in entries if entry.path[-1].startswith("--")]
    reading = _flags(flags) if flags else _fields(entries, bridge=bridge)
    for entry in entries:
        upper = entry.path[-1]
        if len(entry.path) <= 2 and upper.isupper() and not isinstance(entry.value, list):
            value = _environment_text(entry.value)
            reading.environment[upper] = Setting(upper, value, upper, entry.line, entry.span)
    for setting in reading.settings:
        if isinstance(setting.value, Unread):
            reading.unread.append(
                f"line {setting.line}: {setting.written} is `{setting.value.text}`, which is filled in elsewhere"
            )
    return [reading] if reading.settings or reading.unread else []


def _environment_text(value: object) -> str:
    return ("1" if value else "0") if isinstance(value, bool) else str(value)


def _flags(entries: list[_Entry]) -> Reading:
    reading = Reading(Form.COMMAND_LINE)
    pairs = [(entry.path[-1], entry.value, entry.line, entry.span) for entry in entries]
    reading.settings = command_line.from_mapping(pairs)
    return reading


def _fields(entries: list[_Entry], *, bridge: bool) -> Reading:
    """Read sections as those of Bridge's container, else the fields of TransformerConfig, wherever they are nested."""
    sectioned = any(len(entry.path) > 1 and entry.path[-2] in _SECTIONS for entry in entries)
    reading = Reading(Form.RECIPE if sectioned or bridge else Form.KEYWORDS)
    for entry in entries:
        at = next((index for index, key in enumerate(entry.path[:-1]) if key in _SECTIONS), None)
        path = entry.path[at:] if at is not None else entry.path[-1:]
        name = ".".join(path[1:] if path[0] == "model" and len(path) > 1 else path)
        reading.settings.append(Setting(name, entry.value, ".".join(path), entry.line, entry.span))
    return reading


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SkillError(f"skill config: the JSON cannot be read: {str(error)[:200] or 'it is nested too deeply'}") from None


def _entries(text: str) -> Iterator[_Entry]:
    """Yield every value of a YAML document that is no mapping, with its path."""
    import yaml

    if len(text) > LARGEST:
        raise SkillError(f"skill config: the document has {len(text)} characters; a configuration of up to {LARGEST} is read")
    try:
        documents = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SkillError(f"skill config: {place}the document is no YAML that can be read: {reason}") from None
    except RecursionError:
        raise SkillError("skill config: the document is nested too deeply to be read") from None
    budget = [_MOST_NODES]
    for node in documents:
        if node is not None:
            yield from _below(node, (), budget)


def _below(node: yaml.Node, path: tuple[str, ...], budget: list[int]) -> Iterator[_Entry]:
    """Yield the values below a node."""
    import yaml

    _spend(node, path, budget)
    if not isinstance(node, yaml.MappingNode):
        if path:
            yield _Entry(path, _plain(node, path, budget), node.start_mark.line + 1, _span(node, node))
        return
    for key, value in node.value:
        name = str(getattr(key, "value", "?"))
        if isinstance(value, yaml.MappingNode):
            inner = path if name == "<<" else (*path, name)
            yield from _below(value, inner, budget)
        else:
            _spend(value, path, budget)
            yield _Entry((*path, name), _plain(value, (*path, name), budget), key.start_mark.line + 1, _span(key, value))


def _spend(node: yaml.Node, path: tuple[str, ...], budget: list[int]) -> None:
    """Count a node, so that aliases of aliases end."""
    budget[0] -= 1
    if budget[0] < 0 or len(path) > _DEEPEST:
        raise SkillError(
            f"skill config: the document has more than {_MOST_NODES} values or {_DEEPEST} levels, aliases counted each time"
        )
    if not node.tag.startswith(_PLAIN) or node.tag.startswith(f"{_PLAIN}python"):
        line = node.start_mark.line + 1
        raise SkillError(
            f"skill config: line {line}: the tag `{node.tag.replace(_PLAIN, '!!')[:80]}` would make an object when the document is "
            "loaded; write a plain value"
        )


def _plain(node: yaml.Node, path: tuple[str, ...], budget: list[int]) -> object:
    """Return a scalar or a list as Python has it."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for element in node.value:
            _spend(element, path, budget)
        return [_plain(element, (*path, "-"), budget) for element in node.value if not isinstance(element, yaml.MappingNode)]
    if not isinstance(node, yaml.ScalarNode):
        return None
    if "${" in node.value:
        return Unread(node.value[:80])
    kind = node.tag.removeprefix(_PLAIN)
    if kind not in ("bool", "int", "float", "null"):
        return node.value.rpartition(".")[2] if node.value.startswith("CudaGraph") else node.value
    return yaml.SafeLoader("").construct_object(node)


def _span(first: yaml.Node, last: yaml.Node) -> Span:
    start, end = first.start_mark.index, last.end_mark.index
    return Span(start, end, last.start_mark.index if last is not first else start, end)
