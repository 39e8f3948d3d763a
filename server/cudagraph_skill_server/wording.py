"""Sentences of the command in words of the tools: calls and options, which stand in backticks there, as calls and arguments."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

from cudagraph_skill.scaffold.options import Options
from cudagraph_skill.scaffold.recommend import Answers
from cudagraph_skill.text import Steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ARGUMENTS = {"into": "path", "for": "versions", "force": "replace", "shape": "shapes"}  # named otherwise than the option
_DEFAULTS = {**Options._field_defaults, **Answers._field_defaults, "module": False, "replace": False, "verify": False}
_FLAGS = [name for name, value in _DEFAULTS.items() if value is False or name == "training"]
_VALUED = {*Options._fields, *Answers._fields, "path", "versions", "deadline", "inputs", "nproc", "skip"}.difference(_FLAGS)
_ALONE = {**{name: f"{name}=true" for name in _FLAGS}, **{name: name for name in _VALUED}, "inference": "training=false"}
_LISTS = {"for", "shape"}  # options that may be given several times
_NUMBERS = {
    "busy",
    "deadline",
    "nproc",
    "skip",
    *(name for name, value in Options._field_defaults.items() if type(value) is int),
}
_OF_SERVE = {"python": "PATH", "memory": "GB"}
_SPEAKER = re.compile(r"^skill [a-z]+: ")  # the client knows whom it called
_QUOTED = re.compile("`([^`]+)`")


def call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a call with what is given of the arguments."""
    given = (f"{name}={literal(value)}" for name, value in arguments.items() if value)
    return f"{tool}({', '.join(given)})"


STEPS = Steps(
    read=lambda ref: call("read", {"ref": ref}),
    turn=str,
    ask=lambda question: call("search", {"question": question}),
    explain=lambda name: call("explain", {"name": name}),
    check=lambda target: call("check", {"path": target}),
    config=lambda release: call("config", {"path": "FILE", "versions": [release]}),
)


def literal(value: object) -> str:
    """Return a value as it stands in a call."""
    return json.dumps(value, ensure_ascii=False)


def in_arguments(sentence: str, beside: Mapping[str, Any] | None = None) -> str:
    """Return the sentence with what stands in backticks as `argument` says it; whole calls keep what was asked `beside`."""
    return _QUOTED.sub(lambda match: f"`{argument(match[1], beside or {})}`", _SPEAKER.sub("", sentence))


def argument(words: str, beside: Mapping[str, Any] | None = None) -> str:
    """Return `amp="bf16"` of `--amp bf16`, `scaffold(fp8=true)` of `skill scaffold --fp8`; other words stay as they are."""
    try:
        split = shlex.split(words)
    except ValueError:  # an apostrophe
        return words
    match split:
        case ["skill", "scaffold" | "recommend" as tool]:
            return tool
        case ["skill", "scaffold" | "recommend" as tool, *options] if given := _given(options):
            kept = [f"{name}={literal(value)}" for name, value in (beside or {}).items()]
            return f"{tool}({', '.join(dict.fromkeys([*given, *kept]))})"
        case _:
            return ", ".join(_given(split)) or words


def _given(words: Sequence[str]) -> list[str]:
    """Return the arguments that options stand for; none where a word is for the command alone."""
    options: dict[str, list[str]] = {}
    name = ""
    for word in words:
        name = word if word.startswith("--") else name
        options.setdefault(name, []).extend([word] * (word != name))
    given = [_argument(name.removeprefix("--"), values) for name, values in options.items()]
    return [] if "" in given else given


def _argument(option: str, values: Sequence[str]) -> str:
    """Return one argument, or its name where the option was named alone; "" where the tools have none."""
    if option in _OF_SERVE:  # whoever starts the server says it
        return " ".join([f"skill serve --{option}", *(values or [_OF_SERVE[option]])])
    name = _ARGUMENTS.get(option, option.replace("-", "_"))
    if not values:
        return _ALONE.get(name, "")
    if name not in _VALUED:
        return ""
    if option in _LISTS:
        return f"{name}={literal(values)}"
    return f"{name}={values[0] if values[0].isupper() or name in _NUMBERS else literal(values[0])}"  # FUNCTION is any value


def broken(error: str) -> str:
    """Return the sentence for a bug of the server: what was raised, which is told in words, as `NameError: why`."""
    return (
        f"the server broke off ({error}), which is a bug in the server: "
        "report it with the traceback on its stderr, and go on without this call"
    )
