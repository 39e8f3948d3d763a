"""Read configurations from YAML and JSON: flags under keys or in lists and texts, Bridge's sections, fields of TransformerConfig.

Only plain values are read. A tag that would make an object is refused; so is a document that is larger than a configuration.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.config.input import command_line
from cudagraph_skill.config.input.expand import Word
from cudagraph_skill.config.options import FLAGS
from cudagraph_skill.config.settings import Form, Reading, Setting, Span, Unread
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

LARGEST = 2_000_000  # characters
_MOST_NODES = 20_000  # values, with those behind aliases counted each time
_MOST_MARKS = 3 * _MOST_NODES  # colons and commas
_DEEPEST = 60
_PLAIN = "tag:yaml.org,2002:"
_SECTIONS = (
    "model rng ddp optimizer train training comm_overlap rerun_state_machine dataset mixed_precision checkpoint logger dist "
    "scheduler validation tokenizer"
).split()
_FLAG = re.compile(r"(^|\s)--[a-z][\w-]*cuda[-_]graph|(^|\s)--[a-z][\w-]+[ =].*\s--[a-z]", re.DOTALL)

_FIELDS = frozenset(
    (
        "num_layers hidden_size num_attention_heads ffn_hidden_size seq_length micro_batch_size global_batch_size sequence_parallel "
        "tensor_model_parallel_size context_parallel_size rng_tracker te_rng_tracker check_for_nan_in_loss"
    ).split()
) | {flag.name for flag in FLAGS.values()}  # what tells a configuration of a model, where nothing is said of graphs

_ALIAS = re.compile(r"\s*:\s*(\*[^\s,\]}]+)")


class _Entry(NamedTuple):
    """One value of a document under its path."""

    path: tuple[str, ...]
    value: object
    line: int
    span: Span | None


@dataclass
class _Found:
    """What one document holds.

    Attributes:
        flags: Mappings with flags as keys, by the identity of their node.
        arguments: Lists with flags as elements.
        scripts: Places of texts with flags.
        fields: Other values, by the element of a list that they are in.
    """

    flags: dict[int, list[_Entry]] = field(default_factory=dict)
    arguments: list[list[Word]] = field(default_factory=list)
    scripts: list[Span] = field(default_factory=list)
    fields: dict[tuple[str, ...], list[_Entry]] = field(default_factory=dict)
    environment: dict[str, Setting] = field(default_factory=dict)


def readings(text: str, *, bridge: bool, is_json: bool) -> list[Reading]:
    """Return the configurations of a document.

    Raises:
        SkillError: It cannot be parsed, is too large, or has a tag that would make an object.
    """
    if is_json:
        _check_json(text)
    budget = [_MOST_NODES]
    found: list[Reading] = []
    for document in _documents(text):
        walker = _Walker(text, budget, _merged(document, budget))
        walker.below(document, (), ())
        found += _configurations(text, walker.found, bridge=bridge)
    for reading in found:
        reading.title = f"line {reading.settings[0].line}" if len(found) > 1 and reading.settings else ""
    return found


def _configurations(text: str, found: _Found, *, bridge: bool) -> list[Reading]:
    """Return the configurations of one document, each with its environment."""
    read = [_flags(entries) for entries in found.flags.values()]
    read += [command_line.of_words(text, words) for words in found.arguments]
    for span in found.scripts:
        read += [replace(one, notation="flags") for one in command_line.readings(text, span.start, span.end)]
    if not read:
        read = [_fields(entries, bridge=bridge) for entries in found.fields.values() if _about_graphs(entries)]
        others = [entries for entries in found.fields.values() if _of_megatron(entries)]
        read = read or [_fields(entries, bridge=bridge) for entries in others[:1]]
    for reading in read:
        for one in (reading, *(other for way in reading.ways for other in way.readings)):
            one.environment = found.environment | one.environment
    return [reading for reading in read if reading.settings or reading.unread]


def _about_graphs(entries: list[_Entry]) -> bool:
    return any("cuda_graph" in entry.path[-1] or "cuda-graph" in entry.path[-1] for entry in entries)


def _of_megatron(entries: list[_Entry]) -> bool:
    """Return whether there is a section of Bridge, or a field of a model; a workflow of a CI server has neither."""
    names = {entry.path[-1].replace("-", "_") for entry in entries}
    sections = {entry.path[-2] for entry in entries if len(entry.path) > 1}
    return "model" in sections or bool(names & _FIELDS)


def _flags(entries: list[_Entry]) -> Reading:
    reading = Reading(Form.COMMAND_LINE)
    pairs = [(entry.path[-1], entry.value, entry.line, entry.span) for entry in entries]
    reading.settings = command_line.from_mapping(pairs)
    return reading


def _fields(entries: list[_Entry], *, bridge: bool) -> Reading:
    """Read sections as those of Bridge's container, else the fields of TransformerConfig, wherever they are nested."""
    if any(re.match(r"[a-z]+-cuda-graph|cuda-graph-", entry.path[-1]) for entry in entries):
        return _flags(entries)
    sectioned = any(len(entry.path) > 1 and entry.path[-2] in _SECTIONS for entry in entries)
    reading = Reading(Form.RECIPE if sectioned or bridge else Form.KEYWORDS)
    for entry in entries:
        at = next((index for index, key in enumerate(entry.path[:-1]) if key in _SECTIONS), None)
        path = entry.path[at:] if at is not None else entry.path[-1:]
        name = ".".join(path[1:] if path[0] == "model" and len(path) > 1 else path)
        reading.settings.append(Setting(name, entry.value, ".".join(path), entry.line, entry.span))
    return reading


# Parse


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise SkillError(f"skill config: the JSON cannot be read: {reason}") from None


def _documents(text: str) -> list[yaml.Node]:
    import yaml

    if len(text) > LARGEST:
        raise SkillError(f"skill config: the document has {len(text)} characters; a configuration of up to {LARGEST} is read")
    if text.count(":") + text.count(",") > _MOST_MARKS:
        raise _too_large()
    try:
        return [node for node in yaml.compose_all(text, yaml.SafeLoader) if node is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SkillError(f"skill config: {place}the document is no YAML that can be read: {reason}") from None
    except RecursionError:
        raise SkillError("skill config: the document is nested too deeply to be read") from None


def _merged(document: yaml.Node, budget: list[int]) -> set[int]:
    """Return the nodes that others take up with `<<`."""
    import yaml

    found: set[int] = set()
    seen: set[int] = set()
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if len(seen) > budget[0]:
            raise _too_large()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                found |= {id(source) for source in _sources(value)} if getattr(key, "value", "") == "<<" else set()
                waiting.append(value)
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
    return found


def _sources(value: yaml.Node) -> list[yaml.Node]:
    """Return the mappings that `<<` takes up, the one that counts first."""
    import yaml

    return list(value.value) if isinstance(value, yaml.SequenceNode) else [value]


def _too_large() -> SkillError:
    return SkillError(
        f"skill config: the document has more than {_MOST_NODES} values or {_DEEPEST} levels, aliases counted each time"
    )


class _Walker:
    """Visit the values of one document; `merged` are the mappings that stand for nothing but their `<<`."""

    def __init__(self, text: str, budget: list[int], merged: set[int]) -> None:
        self.text = text
        self.budget = budget
        self.merged = merged
        self.found = _Found()

    def below(self, node: yaml.Node, path: tuple[str, ...], element: tuple[str, ...]) -> None:
        """Take up a node and what is below it; `element` is the path of the list element that it is in."""
        import yaml

        self._spend(node, path)
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path, element)
        elif isinstance(node, yaml.SequenceNode) and any(isinstance(one, yaml.MappingNode) for one in node.value):
            for index, one in enumerate(node.value):
                if isinstance(one, yaml.MappingNode) and not self._variable(one):
                    self.below(one, path, (*path, str(index)))

    def _mapping(self, node: yaml.MappingNode, path: tuple[str, ...], element: tuple[str, ...]) -> None:
        import yaml

        name = path[-1] if path else ""
        used_elsewhere = id(node) in self.merged and not name.startswith("MODEL_ARGS")
        pairs = self._pairs(node, path)
        for key, (key_node, value) in pairs.items():
            inner = (*path, key)
            if isinstance(value, yaml.MappingNode) or _has_mapping(value):
                self.below(value, inner, element)
                continue
            self._spend(value, inner)
            entry = _Entry(inner, self._plain(value, inner), key_node.start_mark.line + 1, self._span(key_node, value))
            if not used_elsewhere:
                self._take(entry, value, id(node), element)

    def _pairs(self, node: yaml.MappingNode, path: tuple[str, ...]) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the entries of a mapping: its own count more than those behind `<<`, the first of these more than the next."""
        import yaml

        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = str(getattr(key, "value", "?"))
            if name != "<<":
                own[name] = (key, value)
                continue
            for source in _sources(value):
                self._spend(source, (*path, "<<"))
                if isinstance(source, yaml.MappingNode):
                    merged = self._pairs(source, (*path, "<<")) | merged
        return merged | own

    def _take(self, entry: _Entry, value: yaml.Node, mapping: int, element: tuple[str, ...]) -> None:
        """Put an entry where it belongs: flags, arguments, a script, the environment, or fields."""
        key = entry.path[-1]
        if key.startswith("--"):
            given = entry._replace(value="null") if entry.value is None and value.value else entry
            self.found.flags.setdefault(mapping, []).append(given)
        elif isinstance(entry.value, list) and any(command_line.is_flag(str(word)) for word in entry.value):
            self.found.arguments.append(_words(value))
        elif isinstance(entry.value, str) and _FLAG.search(entry.value):
            self.found.scripts.append(self._inside(value))
        else:
            self.found.fields.setdefault(element, []).append(entry)
        if key.isupper() and not isinstance(entry.value, list) and (len(entry.path) <= 2 or "env" in entry.path[-2].lower()):
            self._set(key, entry.value, entry.line, entry.span)

    def _set(self, name: str, value: object, line: int, span: Span | None) -> None:
        given = ("1" if value else "0") if isinstance(value, bool) else value if isinstance(value, Unread) else str(value)
        self.found.environment[name] = Setting(name, given, name, line, span)

    def _variable(self, node: yaml.MappingNode) -> bool:
        """Take up `{name: NAME, value: text}`, as Kubernetes lists the environment."""
        values = {getattr(key, "value", ""): value for key, value in node.value}
        if not {"name", "value"} <= set(values) or len(values) > 2:
            return False
        name, value = values["name"], values["value"]
        self._set(str(name.value), value.value, value.start_mark.line + 1, None)
        return True

    def _span(self, key: yaml.Node, value: yaml.Node) -> Span:
        """Return the place of an entry: that of an alias, not of what it stands for; a list with dashes begins at the colon."""
        if match := _ALIAS.match(self.text, key.end_mark.index):
            return Span(key.start_mark.index, match.end(), *match.span(1))
        start = key.end_mark.index + 1 if _is_block(value) else value.start_mark.index
        return Span(key.start_mark.index, _end(value), start, _end(value))

    def _inside(self, node: yaml.Node) -> Span:
        """Return the place of the text of a scalar: without its quotes, or the `|` and `>` of a block."""
        start, end = node.start_mark.index, node.end_mark.index
        if self.text[start] in "\"'":
            return Span(start + 1, end - 1)
        if self.text[start] in "|>":
            start = self.text.find("\n", start) + 1 or end
        return Span(start, end)

    def _spend(self, node: yaml.Node, path: tuple[str, ...]) -> None:
        """Count a node, so that aliases of aliases end."""
        self.budget[0] -= 1
        if self.budget[0] < 0 or len(path) > _DEEPEST:
            raise _too_large()
        if not node.tag.startswith(_PLAIN) or node.tag.startswith(f"{_PLAIN}python"):
            line = node.start_mark.line + 1
            raise SkillError(
                f"skill config: line {line}: the tag `{node.tag.replace(_PLAIN, '!!')[:80]}` would make an object when the document "
                "is loaded; write a plain value"
            )

    def _plain(self, node: yaml.Node, path: tuple[str, ...]) -> object:
        """Return a scalar or a list as Python has it."""
        import yaml

        if isinstance(node, yaml.SequenceNode):
            for element in node.value:
                self._spend(element, path)
            return [self._plain(element, (*path, "-")) for element in node.value]
        if not isinstance(node, yaml.ScalarNode):
            return None
        if "${" in node.value and not _FLAG.search(node.value):
            return Unread(node.value[:80])
        kind = node.tag.removeprefix(_PLAIN)
        if kind not in ("bool", "int", "float", "null"):
            return node.value.rpartition(".")[2] if re.match(r"(Inference)?CudaGraph\w+\.", node.value) else node.value
        return yaml.SafeLoader("").construct_object(node)


def _has_mapping(node: yaml.Node) -> bool:
    import yaml

    return isinstance(node, yaml.SequenceNode) and any(isinstance(one, yaml.MappingNode) for one in node.value)


def _words(node: yaml.Node) -> list[Word]:
    """Return the elements of a list of arguments as words of a command."""
    words: Iterator[yaml.Node] = (element for element in node.value if isinstance(element.value, str))
    return [Word(one.value, one.start_mark.index, one.end_mark.index, "${" in one.value) for one in words]


def _end(node: yaml.Node) -> int:
    """Return the end of a value; a list with dashes ends at its last element, not at the next key."""
    return _end(node.value[-1]) if _is_block(node) else node.end_mark.index


def _is_block(node: yaml.Node) -> bool:
    import yaml

    return isinstance(node, yaml.SequenceNode) and not node.flow_style and bool(node.value)
