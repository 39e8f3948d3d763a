"""Write the changes that end the violations of a text, and the new names, into it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.config import options
from cudagraph_skill.config.constraint import LEAVE_OUT, Change
from cudagraph_skill.config.settings import Form, Unread
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudagraph_skill.config.examine import Report
    from cudagraph_skill.config.settings import Setting, Span
    from cudagraph_skill.config.setup import Setup

_MOST_ROUNDS = 24


class Corrected(NamedTuple):
    """A text with its corrections.

    Attributes:
        left: What could not be written into it.
    """

    text: str
    left: list[str]


class _CannotWriteError(Exception):
    """The text has no place for a change; the reason is the message."""


def correct(text: str, check: Callable[[str], Report]) -> Corrected:
    """Write one correction after another, reading the text again after each, until none is left that can be written.

    Args:
        text: The configuration.
        check: Examines a text.
    """
    refused: dict[tuple[str, str], str] = {}
    for _ in range(_MOST_ROUNDS):
        report = check(text)
        changed = _one_correction(text, report, check, refused)
        if changed is None:
            break
        text = changed
    return Corrected(text, [f"{what}: not written: {reason}" for (what, _), reason in refused.items()])


def _one_correction(
    text: str, report: Report, check: Callable[[str], Report], refused: dict[tuple[str, str], str]
) -> str | None:
    """Return the text with the first correction that can be written."""
    setups = {setup.reading.title: setup for setup in report.setups}
    wanted = [(violation.id, violation.where, violation.changes) for violation in report.violations]
    wanted += [(rename.old, title, rename.changes) for rename in report.renames for title in setups]
    for what, where, changes in wanted:
        if (what, where) in refused or not changes:
            continue
        try:
            changed = _changed(text, setups[where], report.kind, changes)
            check(changed)
        except (_CannotWriteError, SkillError) as error:
            refused[what, where] = str(error)
            continue
        if changed != text:
            return changed
        refused[what, where] = "the text has it already"
    return None


def _changed(text: str, setup: Setup, kind: str, changes: Sequence[Change]) -> str:
    edits: list[tuple[int, int, str]] = []
    for change in changes:
        if isinstance(change.value, Unread):
            raise _CannotWriteError(f"the value of {change.name}, `{change.value.text}`, is not known")
        notation = setup.reading.notation or kind
        edits += _environment(text, setup, kind, change) if change.variable else _setting(text, setup, notation, change)
    for start, end, replacement in sorted(_apart(_in_place(edits, text)), reverse=True):
        rest = replacement + text[end:]
        if kind != "flags" and text[:start].rstrip()[-1:] in ("(", "[", "{"):
            rest = re.sub(r"\A\s*,\s*", "", rest)  # of the first element, which is gone
        text = text[:start] + rest
    return text


def _in_place(edits: list[tuple[int, int, str]], text: str) -> list[tuple[int, int, str]]:
    """Write what would be inserted into a line that is taken out in place of what stands there."""
    for start, end, replacement in [*edits]:
        whole_line = text[start - 1 : start] in ("", "\n") and (text[end - 1 : end] == "\n" or end == len(text))
        inserted = [edit for edit in edits if edit[0] == edit[1] and start < edit[0] <= end]
        if replacement or not inserted or not whole_line:
            continue
        indent = re.compile(r"[ \t]*(- +)?").match(text, start)
        new = "".join(words for _, _, words in inserted).lstrip()
        edits = [edit for edit in edits if edit not in [(start, end, ""), *inserted]]
        edits.append(
            (indent.end() if indent else start, inserted[0][0], new.removeprefix("- ") if indent and indent[1] else new)
        )
    return edits


def _apart(edits: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Join removals that overlap, as of two neighbours with the comma between them."""
    found: list[tuple[int, int, str]] = []
    for start, end, replacement in sorted(edits):
        if found and start < found[-1][1] and not replacement and not found[-1][2]:
            found[-1] = (found[-1][0], max(end, found[-1][1]), "")
        else:
            found.append((start, end, replacement))
    return found


def _environment(text: str, setup: Setup, kind: str, change: Change) -> list[tuple[int, int, str]]:
    own, beside = (setup.reading.environment.get(name) for name in (change.name, "PYTORCH_CUDA_ALLOC_CONF"))
    span = next((setting.span for setting in (own, beside) if setting and setting.span), None)
    if span is None:
        raise _CannotWriteError("the text does not set the environment")
    written = text[span.start : span.end]
    if kind == "flags" or re.match(r"[A-Z_]+=", written):  # in a script, also one in a document
        return [_assigned(text, change, span, written, replaced=own is not None)]
    line = _line(kind, f'os.environ["{change.name}"]' if kind == "recipe" else change.name, change)
    if own and own.span:
        return [(own.span.start, own.span.end, line)]
    return [(span.start, span.start, f"{line}{',' if kind == 'json' else ''}\n{_indent(text, span.start)}")]


def _assigned(text: str, change: Change, span: Span, written: str, *, replaced: bool) -> tuple[int, int, str]:
    """Write a variable of a script in place of its old value, or before the other one, as `-e` where that has it."""
    if not re.match(r"[A-Z_]+(=|\Z)", written):
        raise _CannotWriteError(f"`{written[:60]}` sets it")
    assignment = f"{change.name}={change.value}"
    if replaced:
        return (span.start, span.end, assignment)
    option = re.search(r"(-e|-x|--env)\s+\Z", text[max(0, span.start - 20) : span.start])
    return (span.start, span.start, f"{assignment} {option[0] if option else ''}")


def _line(kind: str, target: str, change: Change) -> str:
    if kind == "recipe":
        return f"{target} = {str(change.value)!r}"
    return f"{_key(kind, target)}: {json.dumps(str(change.value))}"


def _key(kind: str, name: str) -> str:
    return json.dumps(name) if kind == "json" else name


def _setting(text: str, setup: Setup, kind: str, change: Change) -> list[tuple[int, int, str]]:
    setting = setup.setting(change.name)
    if setting is None:
        return [] if change.value is LEAVE_OUT else [_inserted(text, setup, kind, change)]
    if setting.span is None or (not setting.span.end and change.value is LEAVE_OUT):
        raise _CannotWriteError(f"{setting.written} of line {setting.line} has no place of its own")
    if change.value is LEAVE_OUT:
        return [_removed(text, kind, setting.span)]
    elsewhere = setting.span.value_end > 0 and not setting.span.start <= setting.span.value_start <= setting.span.end
    if setup.form is Form.COMMAND_LINE and kind in ("flags", "arguments") and not elsewhere:
        flag = options.flag_of(change.name, change.value)
        flag = _elements(text, setting.span.start, flag) if kind == "arguments" else flag
        return [(setting.span.start, setting.span.end, flag)] if flag else [_removed(text, kind, setting.span)]
    if setup.form is Form.COMMAND_LINE and isinstance(change.value, bool) and not options.flag_of(change.name, change.value):
        return [_removed(text, kind, setting.span)]
    if setting.span.value_end <= setting.span.value_start:
        raise _CannotWriteError(f"{setting.written} of line {setting.line} has no value of its own")
    blank = " " if kind == "document" and text[setting.span.value_start - 1] == ":" else ""  # in place of a list with dashes
    return [(setting.span.value_start, setting.span.value_end, blank + _value(setup, kind, change.value))]


def _removed(text: str, kind: str, span: Span) -> tuple[int, int, str]:
    """Take out a setting, with its line where it stands alone, else with the comma or the blank beside it."""
    line_start = text.rfind("\n", 0, span.start) + 1
    line_end = len(text) if (found := text.find("\n", span.end)) < 0 else found + 1
    before, after = text[line_start : span.start], text[span.end : line_end]
    if _alone_on_line(kind, before, after):
        statement = kind == "recipe" and "," not in after
        if statement and _alone_in_block(text, line_start, line_end):
            return (span.start, span.end, "pass")
        return (line_start, line_end, "")
    if kind in ("recipe", "json", "arguments") and (match := re.search(r"\s*,\s*\Z", text[: span.start])):
        return (match.start(), span.end, "")
    if match := re.compile(r"\s*,\s*").match(text, span.end):
        return (span.start, match.end(), "")
    return (span.start - (text[span.start - 1 : span.start] == " "), span.end, "")


def _alone_on_line(kind: str, before: str, after: str) -> bool:
    if kind == "arguments" and before.strip() == "-":
        return True
    if kind == "flags" and after.strip() == "\\":
        return not before.strip()
    if kind in ("json", "arguments"):
        return False  # the comma before it goes too
    return not before.strip() and bool(re.fullmatch(r"\s*,?\s*(#.*)?\s*", after))


def _alone_in_block(text: str, line_start: int, line_end: int) -> bool:
    """Return whether a statement is the only one below its `if` or `def`."""
    indent = len(text[line_start:line_end]) - len(text[line_start:line_end].lstrip())
    above = text[:line_start].rstrip().rpartition("\n")[2]
    below = text[line_end:].lstrip("\n").partition("\n")[0]
    return above.endswith(":") and len(below) - len(below.lstrip()) < indent


def _inserted(text: str, setup: Setup, kind: str, change: Change) -> tuple[int, int, str]:
    """Write a new setting behind the one that it belongs to."""
    anchor = _anchor(setup, change.name)
    assert anchor.span is not None
    at = anchor.span.end
    if kind == "flags":
        quote = text[anchor.span.end - 1 : anchor.span.end] if text[anchor.span.start : anchor.span.start + 1] in "\"'" else ""
        return (at, at, f"{quote and ''} {options.flag_of(change.name, change.value)}")
    if kind == "arguments":
        elements = _elements(text, anchor.span.start, options.flag_of(change.name, change.value))
        return (at, at, f"{_between(text, anchor.span.start)}{elements}")
    if kind == "recipe" and (beside := _python_entry(text, anchor, change, _value(setup, kind, change.value))):
        return (at, at, beside)
    if kind == "recipe":
        target = _target(setup, anchor, change.name)
        return (at, at, f"\n{_indent(text, anchor.span.start)}{target} = {_value(setup, kind, change.value)}")
    flags = setup.form is Form.COMMAND_LINE
    key = options.flag_of(change.name, change.value).partition(" ")[0] if flags else change.name.rpartition(".")[2]
    if flags and not key:
        raise _CannotWriteError(f"{change.name} has no flag")
    value = "true" if flags and isinstance(change.value, bool) else _value(setup, kind, change.value)
    comma = "," if kind == "json" else ""
    return (at, at, f"{comma}\n{_indent(text, anchor.span.start)}{_key(kind, key)}: {value}")


def _python_entry(text: str, anchor: Setting, change: Change, value: str) -> str:
    """Write a setting as the one beside it: as an argument, an entry of a dict, or an assignment to one; else nothing."""
    assert anchor.span is not None
    name = change.name.rpartition(".")[2]
    if match := re.match(r"(\w+)\[[^\]]*\]\s*=", text[anchor.span.start : anchor.span.end]):
        return f"\n{_indent(text, anchor.span.start)}{match[1]}[{json.dumps(name)}] = {value}"
    if "." in anchor.written:
        return ""
    return f", {json.dumps(name)}: {value}" if text[anchor.span.start] in "\"'" else f", {name}={value}"


def _elements(text: str, at: int, words: str) -> str:
    """Write words as elements of the list that holds the one at an offset."""
    between = _between(text, at)
    quote = '"' if between == ", " else ""
    return between.join(f"{quote}{word}{quote}" for word in words.split())


def _between(text: str, at: int) -> str:
    """Return what separates the elements of a list: a comma, or a new line with a dash."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return f"\n{before}" if before.strip() == "-" else ", "


def _anchor(setup: Setup, name: str) -> Setting:
    """Return the setting behind which a new one is written: of the same section, about graphs if there is one."""
    placed = [setting for setting in setup.reading.settings if setting.span is not None and setting.span.end]
    beside = [setting for setting in placed if _section(setting.name) == _section(name)]
    if not beside and setup.form is Form.RECIPE:
        beside = [setting for setting in placed if "." in setting.written]
    if not beside:
        raise _CannotWriteError(f"the text has no section {_section(name) or 'of the model'}")
    return ([setting for setting in beside if setting.name in options.LIVES] or beside)[-1]


def _section(name: str) -> str:
    return name.rpartition(".")[0]


def _target(setup: Setup, anchor: Setting, name: str) -> str:
    """Spell the attribute for a new setting beside one that is there."""
    owner = anchor.written.removesuffix(anchor.name)
    if "." not in name:
        return f"{owner}{name}" if owner else f"{anchor.written.rpartition('.')[0]}.{name}"
    if anchor.name.rpartition(".")[0] == name.rpartition(".")[0]:
        return f"{anchor.written.rpartition('.')[0]}.{name.rpartition('.')[2]}"
    if owner.endswith(".model."):
        return f"{owner.removesuffix('model.')}{name}"
    for setting in setup.reading.settings:
        if "." in setting.name and setting.written.endswith(f".{setting.name}"):
            return setting.written.removesuffix(setting.name) + name
    raise _CannotWriteError(f"the name of the configuration that has {name} is not known")


def _value(setup: Setup, kind: str, value: object) -> str:
    if kind == "flags":
        return " ".join(map(str, value)) if isinstance(value, list) else str(value)
    if kind == "recipe":
        return repr(value)
    if isinstance(value, list):
        if setup.form is Form.COMMAND_LINE:
            return json.dumps(" ".join(value)) if kind == "json" else " ".join(value)
        return json.dumps(value) if kind == "json" else f"[{', '.join(map(str, value))}]"
    return json.dumps(value) if kind == "json" or not isinstance(value, str) else value


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())] if not line.strip() or line.lstrip()[:1] not in "{[" else ""
