"""Read the flags of Megatron-LM from a shell script, a command, or a mapping of flags."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from cudagraph_skill.config.input import overrides, shell
from cudagraph_skill.config.input.unknown import sorted_out
from cudagraph_skill.config.options import FLAGS, Flag
from cudagraph_skill.config.settings import Form, Reading, Setting, Span, Unread, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cudagraph_skill.config.input.expand import Word

_PRINTING = ("echo", "printf", "grep", "sed", "awk", "cat", "tee", "logger")  # commands that only mention flags
_OF_PROFILERS = ("--cuda-graph-trace",)  # of nsys, which may stand before the program
_OF_TOOLS = re.compile(r"\b(activate|conda|mamba|modules?|profile|bashrc|setvars|nvm)\b|~/\.")  # scripts that set up a shell
_OFF = ("false", "no", "off", "0", "none", "null")
_LARGEST = 1_000_000  # bytes of a file that is sourced
_MOST_WAYS = 256  # through the conditions of a script
_MOST_STEPS = 200_000  # statements that are followed for all ways together


def readings(
    text: str, start: int = 0, end: int | None = None, given: Mapping[str, str] | None = None, path: Path | None = None
) -> list[Reading]:
    """Return the commands of a script that have flags of Megatron-LM, or the flags that it only defines.

    Args:
        text: What holds the script.
        start: Where in the text the script begins.
        end: Where it ends; the end of the text without.
        given: The environment of the run.
        path: Where the script lies; files beside it that it sources are read.
    """
    beside = partial(_beside, path.parent if path else None)
    follow = partial(shell.parse, text, start, len(text) if end is None else end, given or {}, beside=beside)
    script = follow()
    found = _of_script(text, script)
    ways = _ways(text, script, found, follow) if script.conditions else []
    if script.both_ways:
        settings = [reading.settings for reading in found]
        others = [reading for reading in _of_script(text, follow(met=False)) if reading.settings not in settings]
        said = [reason for reading in found for reason in reading.unread]
        found += [
            replace(
                reading,
                title=f"{reading.title or 'the command'}, conditions not met",
                unread=[reason for reason in reading.unread if reason not in said],
            )
            for reading in others
        ]
    if found:
        found[0].ways = ways
    return found


def _beside(folder: Path | None, name: str) -> str | None:
    """Return the text of a file in the folder of the script or below; None where there is none that can be read."""
    if folder is None:
        return None
    try:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _ways(text: str, script: shell.Script, first: list[Reading], follow: Callable[..., shell.Script]) -> list[Way]:
    """Return what a script is on each way through its conditions that are not known, where that is another configuration.

    Each condition is taken otherwise by itself; those that make a difference are taken in all combinations, if these are not too many.
    """
    left = max(2, min(_MOST_WAYS, _MOST_STEPS // max(script.steps, 1)))
    found = {_state(first): Way(first)}
    ways = dict(script.conditions)
    known = {offset: script.taken[offset] for offset in ways}
    tried: list[int] = []
    telling: dict[int, list[int]] = {}
    unknown: list[int] = []

    def take(chosen: dict[int, int]) -> bool:
        """Follow one way, and return whether it is another configuration."""
        other = follow(ways=chosen)
        for offset, number in other.conditions.items():
            if offset not in ways:
                ways[offset] = number
                known[offset] = other.taken[offset]
        readings = _of_script(text, other)
        lines = tuple(sorted(_line(text, offset) for offset, way in chosen.items() if way != known.get(offset)))
        state = _state(readings)
        new = state not in found
        found.setdefault(state, Way(readings, lines))
        return new or state != _state(first)

    while open_ones := [offset for offset in ways if offset not in tried]:
        offset = open_ones[0]
        tried.append(offset)
        for way in range(ways[offset]):
            if way == known[offset]:
                continue
            left -= 1
            if left < 0:
                unknown.append(offset)
            elif take({offset: way}):
                telling.setdefault(offset, []).append(way)
    choices = [[known[offset], *others] for offset, others in telling.items()]
    combinations = list(product(*choices))
    if len(combinations) <= left:
        for combination in combinations if len(telling) > 1 else ():
            take(dict(zip(telling, combination, strict=True)))
    elif first:
        first[0].each_alone = True
    if unknown:
        lines = tuple(sorted({_line(text, offset) for offset in unknown}))
        first[0:1] = [replace(first[0], unread=[*first[0].unread, *map(_not_decided, lines)])] if first else []
    return list(found.values())


def _not_decided(line: int) -> str:
    return f"line {line}: runs under a condition; its flags are read as if it ran"


def _state(readings: Sequence[Reading]) -> tuple[object, ...]:
    """Return what of readings decides about their findings."""
    return tuple(
        (
            reading.form,
            tuple((setting.name, repr(setting.value)) for setting in reading.settings),
            tuple(sorted((name, repr(setting.value)) for name, setting in reading.environment.items())),
            tuple(reading.unread),
        )
        for reading in readings
    )


def _of_script(text: str, script: shell.Script) -> list[Reading]:
    commands = _joined([command for command in script.commands if _runs_with_flags(command.words)])
    of_bridge = [command for command in script.commands if not _prints(command.words) and overrides.present(command.words)]
    holding = [one for one in script.variables.values.values() if any(word.text.startswith("--") for word in one.words)]
    defined = [word for variable in holding for word in variable.words]
    if not commands and _has_flags(defined):
        commands = [shell.Command(defined, script.environment)]
        what = "define more flags"
    else:
        what = "set variables of the environment"  # a command names which flags it takes of them
    sourced = [
        f"line {_line(text, first)}: `{text[first:last][:80]}` was not read; it may {what}"
        for first, last in script.sourced
        if not _OF_TOOLS.search(text[first:last])
    ]
    several = len(commands) + len(of_bridge) > 1
    found = [_reading(text, command, titled=several) for command in commands if command not in of_bridge]
    for reading in found:
        reading.unread += sourced
    for command in of_bridge:
        title = _title(text, command) if several else ""
        found.append(_completed(overrides.reading(text, command.words, title), text, command))
    return found


def _title(text: str, command: shell.Command) -> str:
    return f"the command of line {_line(text, command.words[0].start)}"


def of_words(text: str, words: Sequence[Word]) -> Reading:
    """Return the configuration of a list of arguments."""
    reading = _reading(text, shell.Command(list(words), {}), titled=False)
    reading.notation = "arguments"
    return reading


def _joined(commands: list[shell.Command]) -> list[shell.Command]:
    """Join lines of flags that stand without a command."""
    loose = [command for command in commands if command.words[0].text.startswith("-")]
    if len(loose) < 2:
        return commands
    together = shell.Command([word for command in loose for word in command.words], loose[-1].environment)
    return [*(command for command in commands if command not in loose), together]


def _runs_with_flags(words: Sequence[Word]) -> bool:
    return not _prints(words) and _has_flags(words)


def _prints(words: Sequence[Word]) -> bool:
    return words[0].text in _PRINTING


def _has_flags(words: Sequence[Word]) -> bool:
    return any(is_flag(word.text) for word in words)


def is_flag(word: str) -> bool:
    """Return whether a word is a flag that is looked at."""
    name = word.partition("=")[0]
    about_graphs = name.startswith("--") and ("cuda-graph" in name or "cuda_graph" in name) and name not in _OF_PROFILERS
    return name in FLAGS or about_graphs or f"--{name[5:]}" in FLAGS


def _reading(text: str, command: shell.Command, *, titled: bool) -> Reading:
    reading = Reading(Form.COMMAND_LINE, _title(text, command) if titled else "")
    reading.settings = list(_settings(text, command.words))
    return _completed(reading, text, command)


def _completed(reading: Reading, text: str, command: shell.Command) -> Reading:
    """Add the environment of a command, and what is not known of it."""
    for name, word in command.environment.items():
        span = Span(word.start, word.end) if word.end else None
        value: object = Unread(word.text) if word.unread else word.text
        reading.environment[name] = Setting(name, value, name, _line(text, word.start), span)
    unknown = sorted_out(text, command.words)
    for word in unknown.flags:
        reading.unread.append(f"line {_line(text, word.start)}: `{word.text[:80]}` is not known; flags in it were not read")
    reading.unread = list(dict.fromkeys(reading.unread))
    looked_at = [setting.value.text for setting in reading.settings if isinstance(setting.value, Unread)]
    passed = [
        word.text for word in unknown.values if not is_flag(word.text) and not any(word.text in text for text in looked_at)
    ]
    reading.passed_over = list(dict.fromkeys(text[:80] for text in passed))
    reading.without_arguments = bool(unknown.given)
    return reading


def _settings(text: str, words: Sequence[Word]) -> Iterator[Setting]:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not is_flag(word.text):
            continue
        spelled, equals, attached = word.text.partition("=")
        flag, value = _flag(spelled)
        takes = not equals and flag.kind in ("one", "many")
        taken = _values(words[at:], flag.kind) if takes else []
        at += len(taken)
        if equals and word.unread:
            value = Unread(attached)
        elif equals:
            value = [attached] if flag.kind == "many" else attached
        elif taken:
            value = _value(taken, flag.kind)
        yield Setting(flag.name, value, spelled, _line(text, word.start if word.end else word.site), _span(word, taken))


def _span(word: Word, taken: Sequence[Word]) -> Span | None:
    """Return the place of a flag with its values; of the values alone where they are written elsewhere."""
    if not word.end:  # of a variable of another text
        return None
    if not taken:
        return Span(word.start, word.end)
    first, last = taken[0], taken[-1]
    if word.end <= first.start <= last.end:
        return Span(word.start, last.end, first.start, last.end)
    end = last.site if last.site >= word.end else 0
    return Span(word.start if end else 0, end, first.start, last.end) if first.start <= last.end else None


def _value(taken: Sequence[Word], kind: str) -> object:
    if any(word.unread for word in taken):
        return Unread(" ".join(word.text for word in taken))
    return [word.text for word in taken] if kind == "many" else taken[0].text


def _flag(spelled: str) -> tuple[Flag, object]:
    """Return what a flag sets, and the value that it has without one of its own."""
    if spelled in FLAGS:
        flag = FLAGS[spelled]
        return flag, {"on": True, "off": False, "either": True}.get(flag.kind)
    if f"--{spelled[5:]}" in FLAGS and spelled.startswith("--no-"):
        return FLAGS[f"--{spelled[5:]}"], False
    if "_" in spelled:
        return Flag(spelled, FLAGS.get(spelled.replace("_", "-"), Flag("", "one")).kind), None
    return Flag(spelled.lstrip("-").replace("-", "_"), "one"), None


def _values(words: Sequence[Word], kind: str) -> list[Word]:
    """Return the words that a flag takes: up to the next flag."""
    taken: list[Word] = []
    for word in words:
        if word.text.startswith("--") or (kind == "one" and taken) or (word.unread and word.text.startswith(("$@", "${@"))):
            break
        if kind == "many" and word.unread and word.text.endswith(("[@]}", "[*]}")):
            break  # more flags, rather than more values
        taken.append(word)
    return taken


def from_mapping(flags: Sequence[tuple[str, object, int, Span | None]]) -> list[Setting]:
    """Return settings for flags that are keys of a mapping, with their line and place: a true value stands for the flag alone."""
    settings = []
    for spelled, value, line, span in flags:
        if not is_flag(dashed := f"--{spelled.lstrip('-')}"):
            continue
        flag, alone = _flag(dashed)
        if isinstance(value, Unread):
            settings.append(Setting(flag.name, value, spelled, line, span))
            continue
        if flag.kind in ("on", "off", "either"):
            if value is not None and str(value).lower() in _OFF:
                continue
            settings.append(Setting(flag.name, alone, spelled, line, span))
            continue
        words = [str(word) for word in value] if isinstance(value, list) else _split(flag, str(value))
        given: object = words if flag.kind == "many" else (words[0] if words else None)
        settings.append(Setting(flag.name, given, spelled, line, span))
    return settings


def _split(flag: Flag, value: str) -> list[str]:
    """Split a text as the runner of Megatron-LM's functional tests does: brackets off, then at blanks."""
    if flag.kind == "many" and value.startswith("[") and value.endswith("]"):
        value = value[1:-1]
    return value.split()


def _line(text: str, offset: int) -> int:
    offset = offset if offset >= 0 else -offset // shell.WIDTH  # of a condition in a file that is sourced there
    return text.count("\n", 0, offset) + 1
