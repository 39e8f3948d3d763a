"""Read what a command sets of a recipe of Megatron-Bridge: `model.field=value`, and the flags of its performance scripts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_skill.config.settings import Form, Member, Reading, Setting, Unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudagraph_skill.config.input.shell import Word

_OVERRIDE = re.compile(
    r"\+{0,2}((?:model|rng|ddp|optimizer|train|dataset|comm_overlap|mixed_precision|rerun_state_machine|dist)(?:\.\w+)+)=(.*)",
    re.DOTALL,
)
_SCRIPT_FLAGS = ("--cuda_graph_impl", "--cuda_graph_scope")
_CONSTANTS = {"true": True, "false": False, "null": None}


def present(words: Sequence[Word]) -> bool:
    """Return whether a command sets anything of a recipe."""
    return any(_OVERRIDE.fullmatch(word.text) or word.text.partition("=")[0] in _SCRIPT_FLAGS for word in words)


def reading(text: str, words: Sequence[Word], title: str) -> Reading:
    """Return the settings of a command, over those of a recipe that it names and that is not read."""
    result = Reading(Form.RECIPE, title, based_on=["the recipe of the command"])
    result.settings = [*_script_flags(text, words), *_overrides(text, words)]
    if result.last("cuda_graph_impl") is None:
        line = result.settings[0].line
        result.settings.append(Setting("cuda_graph_impl", Unread("that of the recipe"), "model.cuda_graph_impl", line))
    return result


def _overrides(text: str, words: Sequence[Word]) -> Iterator[Setting]:
    for word in words:
        if match := _OVERRIDE.fullmatch(word.text):
            value = Unread(match[2]) if word.unread else _value(match[2])
            yield Setting(match[1].removeprefix("model."), value, match[1], _line(text, word))


def _script_flags(text: str, words: Sequence[Word]) -> Iterator[Setting]:
    """Yield what the performance scripts set: they choose the RNG tracker and the check for NaN themselves."""
    for index, word in enumerate(words):
        flag, equals, attached = word.text.partition("=")
        if flag not in _SCRIPT_FLAGS:
            continue
        following = [] if equals else [other.text for other in words[index + 1 :]]
        end = next((at for at, other in enumerate(following) if other.startswith("-")), len(following))
        value = attached or ",".join(following[:end] if flag.endswith("scope") else following[:1])
        line = _line(text, word)
        if flag.endswith("scope"):
            yield Setting("cuda_graph_scope", value.split(","), flag, line)
        else:
            yield Setting("cuda_graph_impl", value, flag, line)
            yield Setting("use_te_rng_tracker", value != "none", flag, line)
        yield Setting("rerun_state_machine.check_for_nan_in_loss", False, flag, line)


def _value(text: str) -> object:
    """Read a value as Hydra does: a list, a constant, a number, or a text."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(part) for part in text[1:-1].split(",") if part.strip()]
    if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return Member(text.rpartition(".")[2]) if text.startswith("CudaGraph") else text


def _line(text: str, word: Word) -> int:
    return text.count("\n", 0, word.start) + 1
