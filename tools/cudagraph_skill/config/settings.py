"""What was read of a configuration: its settings with the text that gives them, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Form(Enum):
    """Who checks a configuration: that decides its defaults, its spelling and which constraints apply."""

    COMMAND_LINE = "command line"  # Megatron-LM: argparse, `validate_args`, then `TransformerConfig`
    KEYWORDS = "keywords"  # `TransformerConfig` alone
    RECIPE = "recipe"  # Megatron-Bridge: `ConfigContainer.validate`, the model provider, then `TransformerConfig`


class Unread:
    """A value that the text computes in a way that is not followed; `text` is its source."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Unread({self.text!r})"


class Member(str):
    """The name of a member of an enumeration, as in `CudaGraphScope.attn`."""

    __slots__ = ()


class Fixed(list[object]):
    """A tuple."""


class Outside(Unread):
    """A name of a package that is not read: its value is not known, but it exists."""


class Span(NamedTuple):
    """Offsets into the text: of a whole setting, and of its value (empty where it has none of its own)."""

    start: int
    end: int
    value_start: int = 0
    value_end: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it was written.

    Attributes:
        name: As the packages' configuration classes call it: a field of TransformerConfig, or `section.field`.
        value: A constant, a list of constants, None, or Unread.
        written: How the text spells it: `--cuda-graph-scope`, `cfg.model.cuda_graph_scope`.
        line: Line in the text, from 1.
        span: Where it stands; None where the text has no place of its own for it.
    """

    name: str
    value: object
    written: str
    line: int
    span: Span | None = None


@dataclass
class Reading:
    """One configuration that a text holds: a command, a call, a function that makes a recipe, a document.

    Attributes:
        title: What it is, for texts that hold several: `pretrain()`, `line 12`.
        settings: In the order of the text; the last of a name counts.
        environment: Variables that the text sets, with their line.
        based_on: Code that made the configuration and was not read, such as `base_config()`.
        changed_by: Code that got the configuration and was not read: it may have set anything.
        conditional: Whether it is so on one path only, through conditions that are not known.
        unread: What could not be read, each with its place and reason.
        passed_over: Parts that could not be read and that are values of settings which no constraint looks at.
        without_arguments: Whether the arguments of the script, which were not given, are a part of it.
        notation: How a document holds flags: "flags" in a text, "arguments" in a list; empty where they are keys.
        ways: Of the first reading of a script: what it is on each way through its conditions that are not known, the way read at first.
        each_alone: Whether these conditions were too many to be taken together.
    """

    form: Form
    title: str = ""
    settings: list[Setting] = field(default_factory=list)
    environment: dict[str, Setting] = field(default_factory=dict)
    based_on: list[str] = field(default_factory=list)
    changed_by: list[str] = field(default_factory=list)
    conditional: bool = False
    unread: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    without_arguments: bool = False
    notation: str = ""
    ways: list[Way] = field(default_factory=list)
    each_alone: bool = False

    def last(self, name: str) -> Setting | None:
        """Return the setting of a name that counts."""
        return next((setting for setting in reversed(self.settings) if setting.name == name), None)


class Way(NamedTuple):
    """One way through the conditions of a script.

    Attributes:
        lines: Of the conditions that are taken otherwise than at first.
    """

    readings: list[Reading]
    lines: tuple[int, ...] = ()
