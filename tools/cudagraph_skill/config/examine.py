"""Check the configurations of a text: read them, choose the releases, and ask every constraint."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

from cudagraph_skill.config import (
    constraints_bridge,
    constraints_core,
    constraints_features,
    constraints_inference,
    releases,
    renames,
)
from cudagraph_skill.config.constraint import CONSTRAINTS, fix
from cudagraph_skill.config.input import command_line, document, recipe
from cudagraph_skill.config.notes import notes
from cudagraph_skill.config.options import FLAGS, LIVES, OF_PROVIDERS
from cudagraph_skill.config.settings import Form, Unread
from cudagraph_skill.config.setup import Setup, UndecidedError
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cudagraph_skill.config.constraint import Change, Clash
    from cudagraph_skill.config.releases import Releases
    from cudagraph_skill.config.settings import Reading, Setting

_ROWS = (
    constraints_core,
    constraints_features,
    constraints_inference,
    constraints_bridge,
)  # they register their rows when they are imported

_BY_SUFFIX = {
    ".sh": "flags",
    ".bash": "flags",
    ".sbatch": "flags",
    ".py": "recipe",
    ".yaml": "document",
    ".yml": "document",
    ".json": "json",
}
_SHORT = 500  # characters of flags that were typed
_GENERIC = frozenset({"fp16", "bf16", "fp8", "fp4", "loss_scale", "attention_dropout", "hidden_dropout"})
_FLAG = re.compile(r"(^|[\s\"'(])--[a-z][\w-]+")
_KEYED = re.compile(r"^\s*(?:- )?[\"']?[\w.-]+[\"']?\s*:(\s|$)", re.MULTILINE)


@dataclass(frozen=True)
class Violation:
    """A constraint that a configuration violates.

    Attributes:
        id: Its section in references/constraints.md.
        where: Which of several configurations of the text, or an empty text.
    """

    id: str
    message: str
    fix: str
    line: int
    where: str = ""
    changes: tuple[Change, ...] = ()


@dataclass
class Report:
    """What was found in one text.

    Attributes:
        setups: The configurations that were checked.
        undecided: Constraints that depend on what was not read, with the reason.
    """

    releases: Releases
    kind: str  # "flags", "recipe", "document" or "json"
    setups: list[Setup] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    renames: list[renames.Rename] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def examine(
    text: str,
    suffix: str,
    wanted: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    arch: int | None = None,
    path: Path | None = None,
) -> Report:
    """Check the configurations that a text holds.

    Args:
        text: A shell script or flags, a Python recipe or call, YAML or JSON.
        suffix: Of the file's name, such as ".py"; the text decides where it is none that is known.
        wanted: Requirements such as "megatron-core==0.18.2"; without them what is installed counts.
        variables: Environment of the run, over what the text sets.
        arch: Compute capability of the GPU, 90 for sm_90.
        path: Where the text lies; a recipe is read with the files beside it that it imports from.

    Raises:
        SkillError: The text cannot be read, holds no configuration, or a release is not known.
    """
    kind = _BY_SUFFIX.get(suffix.lower()) or _kind(text)
    bridge = any(re.match(r"\s*megatron[-_.]bridge", one, re.IGNORECASE) for one in wanted)
    readings = _readings(text, kind, path, variables or {}, wanted, bridge=bridge)
    if not readings or (kind == "recipe" and not wanted and not _is_about_megatron(text, readings)):
        raise SkillError(
            f"skill config: no setting of Megatron was found: {_meant(text) or 'give a command with flags such as --cuda-graph-impl'}, "
            "a recipe that sets fields such as model.cuda_graph_impl, or a YAML or JSON document with either"
        )
    chosen = releases.choose(wanted, bridge_used=any(reading.form is Form.RECIPE for reading in readings))
    report = Report(chosen, kind, notes=list(chosen.notes))
    run = partial(_examined, chosen=chosen, given=dict(variables or {}), arch=arch)
    for reading in readings:
        run(reading, report=report)
    for reading in readings:
        if len(reading.ways) > 1:
            _compare(reading, report, lambda one: run(one, report=Report(chosen, kind)))
    _set_apart_conditional(report)
    report.notes = list(dict.fromkeys([*report.notes, *_passed_over(report)]))
    again = {f"{setup.reading.title}: {reason}" for setup in report.setups for reason in report.unread if setup.reading.title}
    report.unread = [reason for reason in dict.fromkeys(report.unread) if reason not in again]
    return report


def _examined(reading: Reading, *, chosen: Releases, given: dict[str, str], arch: int | None, report: Report) -> Report:
    """Add what is found in one configuration."""
    written: dict[str, str | Unread] = {
        name: setting.value if isinstance(setting.value, Unread) else str(setting.value)
        for name, setting in reading.environment.items()
    }
    setup = Setup(_carried(reading, chosen), chosen, written | given, arch)
    report.setups.append(setup)
    _check(setup, report)
    report.unread += [_placed(setup, reason) for reason in reading.unread]
    return report


def _compare(script: Reading, report: Report, run: Callable[[Reading], Report]) -> None:
    """Say which conditions of a script that are not known change what is found."""
    ways = script.ways
    outcomes = [_Outcome([run(reading) for reading in way.readings]) for way in ways]
    first = outcomes[0]
    changing: set[int] = set()
    told: set[int] = set()
    said = _Outcome([report])
    for way, outcome in zip(ways[1:], outcomes[1:], strict=True):
        where = _lines(way.lines)
        more = [text for name, text in outcome.found.items() if name not in said.found and name not in first.found]
        report.unread += [f"{where}: under a condition that is not known it {text}" for text in more]
        unread = [reason for reason in outcome.unread if reason not in said.unread and reason not in first.unread]
        report.unread += [f"{where}: under a condition that is not known: {reason}" for reason in unread]
        said.found |= outcome.found
        said.unread |= outcome.unread
        less = first.found.keys() - outcome.found.keys()
        if less and not told & set(way.lines):
            told |= set(way.lines)
            report.unread.append(f"{where}: runs under a condition; its flags are read as if it ran")
        if not less and not more and not unread:
            changing |= set(way.lines)
    if len(ways) > 1 and all(first == outcome for outcome in outcomes):
        alone = ", each by itself," if script.each_alone else ""
        report.notes.append(
            f"conditions that are not known ({_lines(sorted(changing))}){alone} change nothing of what is found"
        )


def _lines(lines: Sequence[int]) -> str:
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"


class _Outcome:
    """What is found on one way through a script.

    Attributes:
        found: What is violated and what is called by an old name, each with a sentence.
    """

    def __init__(self, reports: Sequence[Report]) -> None:
        self.found = {one.id: f"violates {one.id}: {one.message}" for report in reports for one in report.violations} | {
            f"{one.old} {one.new}": one.message for report in reports for one in report.renames
        }
        self.unread = {reason: None for report in reports for reason in report.unread}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Outcome) and (self.found.keys(), self.unread) == (other.found.keys(), other.unread)

    __hash__ = None  # type: ignore[assignment]


def _passed_over(report: Report) -> list[str]:
    """Say what was not read and changes nothing."""
    undecided = " ".join(report.unread)
    names = dict.fromkeys(word for setup in report.setups for word in setup.reading.passed_over)
    for setup in report.setups:
        for setting in setup.reading.settings:
            if isinstance(setting.value, Unread) and f"`{setting.written}`" not in undecided:
                names.setdefault(setting.value.text[:80])
    found = []
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        shown = ", ".join(f"`{name}`" for name in [*names][:3])
        found.append(f"values that are not known, and that no constraint depends on: {shown}{more}")
    if any(setup.reading.without_arguments for setup in report.setups):
        found.append("the script hands on its own arguments (`$@`); it was checked without any")
    return found


def _set_apart_conditional(report: Report) -> None:
    """Keep a violation that is there on every path through a function; say of one on some paths that it depends."""
    paths = Counter(setup.reading.title for setup in report.setups if setup.reading.conditional)
    found = Counter((violation.where, violation.id) for violation in report.violations)
    kept: dict[tuple[str, str, int], Violation] = {}  # what commands share is said once
    for violation in report.violations:
        if found[violation.where, violation.id] < paths[violation.where]:
            place = f"line {violation.line}" + (f" of {violation.where}" if violation.where else "")
            report.unread.append(
                f"{place}: under a condition that is not known it violates {violation.id}: {violation.message}"
            )
        else:
            kept.setdefault((violation.message, violation.id, violation.line), violation)
    report.violations = list(kept.values())


def _kind(text: str) -> str:
    """Tell what a text is that has no name."""
    if _FLAG.search(text) and not _KEYED.search(text):
        return "flags"
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return (
            "document"
            if _KEYED.search(text) and "=" not in text.partition("\n")[0]
            else "flags"
            if _FLAG.search(text)
            else "recipe"
        )
    return "json"


def _readings(
    text: str, kind: str, path: Path | None, variables: Mapping[str, str], wanted: Sequence[str], *, bridge: bool
) -> list[Reading]:
    if len(text) > document.LARGEST:
        raise SkillError(
            f"skill config: the text has {len(text)} characters; a configuration of up to {document.LARGEST} is read"
        )
    if kind == "recipe":
        return recipe.readings(text, variables, releases.choose(wanted, bridge_used=True), bridge=bridge, path=path)
    if kind in ("document", "json"):
        return document.readings(text, bridge=bridge, is_json=kind == "json")
    return command_line.readings(text, given=variables, path=path)


def _meant(text: str) -> str:
    """Return which flag a short text seems to mean, as the beginning of an advice; "" where it is like none."""
    typed = [f"--{word.strip('-').lower().replace('_', '-')}" for word in text.split()] if len(text) <= _SHORT else []
    near = [flag for word in typed for flag in get_close_matches(word, FLAGS, 1, 0.85)]
    return f"did you mean {near[0]}? Give a command with flags" if near else ""


def _is_about_megatron(text: str, readings: Sequence[Reading]) -> bool:
    """Tell whether a program, or one that it is made of, names Megatron or settings of it; many others set `fp16`."""
    names = {*LIVES, *OF_PROVIDERS, *(flag.name for flag in FLAGS.values())} - _GENERIC
    read = (setting.name for reading in readings for setting in reading.settings)
    return "megatron" in text.lower() or not names.isdisjoint((*re.findall(r"\w+", text), *read))


def _carried(reading: Reading, chosen: Releases) -> Reading:
    """Write what Bridge's helpers set as they do on a release without `cuda_graph_modules`."""
    if chosen.core >= (0, 18) or not any(setting.written.endswith("_cuda_graph") for setting in reading.settings):
        return reading
    settings: list[Setting] = []
    for setting in reading.settings:
        if setting.written == "set_full_iteration_cuda_graph":
            settings += [replace(setting, value="local"), replace(setting, name="cuda_graph_scope", value=["full_iteration"])]
        else:
            settings.append(setting)
    return replace(reading, settings=settings)


def _check(setup: Setup, report: Report) -> None:
    """Ask every constraint that holds for these releases, and what is called by an old name."""
    undecided: dict[str, dict[str, list[str]]] = {}
    for row in CONSTRAINTS.values():
        if not row.holds_for(setup):
            continue
        try:
            clash = row.violated(setup)
        except UndecidedError as error:
            undecided.setdefault(error.reason, {}).setdefault(error.name, []).append(row.id)
            continue
        if clash is not None:
            report.violations.append(_violation(setup, row.id, clash))
    for setting, clash in renames.missing(setup):
        report.violations.append(_violation(setup, "option-not-in-release", clash, setting.line))
    with suppress(UndecidedError):  # then a constraint has said so
        report.renames += [rename for rename in renames.renames(setup) if rename not in report.renames]
        report.notes += notes(setup)
    if not _about_graphs(setup):
        undecided = {reason: names for reason, names in undecided.items() if _chosen_by_parser(setup, names)}
    report.unread += [_placed(setup, _undecided(reason, names)) for reason, names in undecided.items()]


def _undecided(reason: str, names: dict[str, list[str]]) -> str:
    """Say which settings were not read, why, and what depends on them."""
    ids = sorted({name for found in names.values() for name in found})
    return f"{', '.join(f'`{name}`' for name in names)} {reason}: not decided: {', '.join(ids)}"


def _chosen_by_parser(setup: Setup, names: dict[str, list[str]]) -> bool:
    """Return whether a value is one of a few that the parser takes for a flag about graphs, also where none are made."""
    flags = {setting.written for setting in setup.reading.settings if setting.name in LIVES}
    return setup.form is Form.COMMAND_LINE and bool(flags & set(names))


def _about_graphs(setup: Setup) -> bool:
    """Return whether graphs are on, or may be."""
    try:
        return setup.implementation != "none"
    except UndecidedError:
        return True


def _violation(setup: Setup, name: str, clash: Clash, line: int = 0) -> Violation:
    written = [setting for name in clash.settings if (setting := setup.setting(name))]
    about_graphs = [setting for setting in setup.reading.settings if setting.name in LIVES]
    lines = [setting.line for setting in (*written, *about_graphs)]
    return Violation(
        name, clash.message, fix(setup, clash), line or (lines[0] if lines else 0), setup.reading.title, clash.changes
    )


def _placed(setup: Setup, reason: str) -> str:
    title = setup.reading.title
    return f"{title}: {reason}" if title and title not in reason else reason
