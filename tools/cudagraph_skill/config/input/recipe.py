"""Read the configurations that a Python file builds, from its syntax: recipes of Megatron-Bridge and `TransformerConfig(...)`.

The file is followed, not executed: assignments, calls of its own functions, conditions on known values, loops over known lists.
A condition that is not known is taken both ways. Files of the same tree of folders that it imports
from are followed too; code of others is not read, and what it may set counts as not read.
"""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from cudagraph_skill.config.input.execution import TooManyStepsError
from cudagraph_skill.config.input.follow import Follower
from cudagraph_skill.config.input.module import Module, parsed
from cudagraph_skill.config.input.record import Record
from cudagraph_skill.config.options import LIVES
from cudagraph_skill.config.settings import Form, Reading, Setting, Unread
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cudagraph_skill.config.input.record import Given
    from cudagraph_skill.config.releases import Releases

_MOST_PATHS = 32  # ways through conditions that are not known
_MOST_STEPS = 100_000  # statements on all of these
_ABOUT_GRAPHS = frozenset(LIVES) | {"use_te_rng_tracker", "te_rng_tracker"}
_SECTIONS = frozenset("model rng ddp optimizer train dataset comm_overlap mixed_precision rerun_state_machine".split())
_BRIDGE_KINDS = ("ConfigContainer", "Provider", "ModelConfig")
_MODEL_FIELDS = ("cuda_graph_impl", "cuda_graph_scope", "cuda_graph_modules", "enable_cuda_graph", "external_cuda_graph")


def readings(
    text: str, variables: Mapping[str, str], releases: Releases, *, bridge: bool, path: Path | None = None
) -> list[Reading]:
    """Return the configurations of a file.

    Args:
        text: Python source.
        variables: The environment of the run; a variable that it lacks counts as not set.
        releases: Those in use: they decide about `hasattr` and imports that may fail.
        bridge: Whether a configuration of a kind that the file does not tell is one of Megatron-Bridge.
        path: Where the text lies, to read the files beside it that it imports from.

    Raises:
        SkillError: The text is no Python, or nested deeper than Python reads.
    """
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        place = f"line {line}: " if line else ""
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise SkillError(f"skill config: {place}the recipe is no Python that can be read: {reason}") from None
    found: list[Reading] = []
    seen: set[int] = set()
    lost: list[str] = []
    for root in _roots(tree):
        for reading in _paths(Module(tree, text, path), variables, root, seen, lost, releases, bridge=bridge):
            if (reading.title, reading.settings) not in [(other.title, other.settings) for other in found]:
                found.append(reading)
    known = {reason for reading in found for reason in reading.unread}
    unread = [*_never_reached(tree, seen), *(reason for reason in dict.fromkeys(lost) if reason not in known)]
    if found:
        found[-1].unread += unread
    elif unread:
        found.append(Reading(Form.RECIPE if bridge else Form.KEYWORDS, unread=unread))
    if len(found) == 1:
        found[0].title = ""
    return found


def _roots(tree: ast.Module) -> list[ast.FunctionDef | None]:
    """Return the functions that no other one of the file calls, and None for the code of the module itself."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and not node.bases and not node.decorator_list)
    functions += [node for one in classes for node in one.body if isinstance(node, ast.FunctionDef)]
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return [None, *(function for function in functions if function.name not in called)]


def _paths(
    main: Module,
    variables: Mapping[str, str],
    root: ast.FunctionDef | None,
    seen: set[int],
    lost: list[str],
    releases: Releases,
    *,
    bridge: bool,
) -> Iterator[Reading]:
    """Run one function on every path through its unknown conditions."""
    decisions: list[bool] = []
    paths = steps = 0
    while paths < _MOST_PATHS and steps < _MOST_STEPS:
        follower = Follower(Module(main.tree, main.text, main.path), decisions, variables, partial(_has, releases))
        try:
            follower.run(root)
        except (TooManyStepsError, RecursionError):
            follower.unread.append("the file builds its configuration in more steps than are followed")
        paths, steps = paths + 1, steps + follower.steps
        seen |= follower.seen
        yield from _configurations(follower, root, bridge=bridge)
        lost += [reason for reason in follower.unread if "cuda_graph" in reason or "settings of graphs" in reason]
        decisions = follower.taken
        while decisions and not decisions[-1]:
            decisions.pop()
        if not decisions:
            return
        decisions[-1] = False
    line = root.lineno if root else 1
    others = f"line {line}: more than {paths} ways through its conditions; the others were not read"
    yield Reading(Form.KEYWORDS, f"{root.name}()" if root else "", conditional=True, unread=[others])


def _has(releases: Releases, name: str) -> bool | None:
    """Return whether these releases have a field or an importable name; None where that is not known."""
    if name in ("CudaGraphModule", "InferenceCudaGraphScope"):
        return releases.core >= (0, 18)
    if name == "megatron.bridge.utils.cuda_graph":
        return releases.bridge is None or releases.bridge >= (0, 5)
    life = LIVES.get(name)
    if life is None or "field" not in life.places:
        return True if name in _SECTIONS or name in _ABOUT_GRAPHS else None
    return life.since <= releases.core < life.until


def _configurations(follower: Follower, root: ast.FunctionDef | None, *, bridge: bool) -> Iterator[Reading]:
    """Yield a reading for each record that is a whole configuration."""
    inner = {id(child) for record in follower.records for child in record.children() if not _alone(record, child)}
    foreign: list[str] = []
    found = False
    for record in follower.records:
        if id(record) in inner:
            continue
        container = isinstance(record.fields.get("model"), Record)
        given = list(_flattened(record, container=container))
        form = _form(record, given, container=container, bridge=bridge)
        if form is None:
            foreign += _foreign(record, given)
            continue
        found = True
        title = f"{root.name}()" if root else f"line {given[0][1].line}"
        reading = Reading(form, title, [Setting(name, *one) for name, one in given], dict(follower.environment))
        reading.conditional = bool(follower.taken)
        whole = [record, *_below(record)]
        reading.based_on = list(dict.fromkeys(one.base for one in whole if one.base))
        reading.changed_by = list(dict.fromkeys(one.changed_by for one in whole if one.changed_by))
        reading.unread = list(dict.fromkeys(follower.unread + foreign))
        yield reading
    if foreign and not found:
        yield Reading(Form.RECIPE if bridge else Form.KEYWORDS, f"{root.name}()" if root else "", unread=foreign)


def _alone(record: Record, child: Record) -> bool:
    """Return whether an object only keeps a configuration, as `self.config` does."""
    return record.kind in ("", "self") and child.kind.endswith("TransformerConfig") and record.fields.get("model") is not child


def _form(record: Record, given: list[tuple[str, Given]], *, container: bool, bridge: bool) -> Form | None:
    """Return who checks a record; None where it is no configuration of graphs."""
    of_bridge = container or any(record.kind.endswith(kind) for kind in _BRIDGE_KINDS)
    configuration = of_bridge or record.kind.endswith("TransformerConfig")
    about_graphs = any(name.rpartition(".")[2] in _ABOUT_GRAPHS for name, _ in given)
    if not given or not (configuration or (about_graphs and not record.kind)):
        return None
    return Form.RECIPE if of_bridge or (bridge and not configuration) else Form.KEYWORDS


def _foreign(record: Record, given: list[tuple[str, Given]]) -> list[str]:
    """Say that an object of a class that is not known has settings of graphs."""
    about = next((one for name, one in given if name.rpartition(".")[2] in _ABOUT_GRAPHS), None)
    if about is None or not about.line:
        return []
    return [f"line {about.line}: {record.kind} has settings of graphs, {about.written}; what becomes of them was not read"]


def _flattened(record: Record, *, container: bool, prefix: str = "") -> Iterator[tuple[str, Given]]:
    """Yield the fields of a record by the names that constraints use: those of the model without their section."""
    for name, given in record.given:
        if isinstance(given.value, list) and any(isinstance(one, (Record, Unread)) for one in given.value):
            yield prefix + name, given._replace(value=Unread("a list of values that are computed"))
        elif not isinstance(given.value, Record):
            yield prefix + name, given
            if isinstance(given.value, dict):
                yield from _entries(given, f"{prefix}{name}.")
        elif _alone(record, given.value):
            continue
        elif name in LIVES or not (given.value.given or given.value.fields):
            yield prefix + name, given._replace(value=Unread(given.value.base or given.value.kind))
    for name, child in record.fields.items():
        if isinstance(child, Record) and not _alone(record, child):
            model = container and not prefix and name == "model"
            yield from _flattened(child, container=False, prefix="" if model else f"{prefix}{name}.")


def _entries(given: Given, prefix: str) -> Iterator[tuple[str, Given]]:
    """Yield the entries of a dict as fields of a section."""
    assert isinstance(given.value, dict)
    for name, value in given.value.items():
        yield f"{prefix}{name}", given._replace(value=value, written=f"{given.written}[{name!r}]", span=None)


def _below(record: Record) -> Iterator[Record]:
    """Yield the sections of a record, and theirs."""
    for child in record.children():
        yield child
        yield from _below(child)


def _never_reached(tree: ast.Module, seen: set[int]) -> Iterator[str]:
    """Say which lines name CUDA graphs and were on no path."""
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif isinstance(node, ast.keyword):
            name = node.arg or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
        if name in _MODEL_FIELDS and id(node) not in seen:
            yield f"line {getattr(node, 'lineno', 0)}: {name} is set where the file was not followed: not read"
