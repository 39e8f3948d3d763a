"""Declare arguments: the parser of every command, types of numbers, options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from cudagraph_skill.cli.next_step import in_help
from cudagraph_skill.errors import SkillError

EXIT_CODES = """\
exit codes: 0 an answer, 1 nothing found, 2 the command was not understood, 3 this machine lacks something it needs"""
PROGRAM_EXIT_CODES = """\
exit codes: 0 a program, or verified, 1 a check of the program failed, 2 the command was not understood, options do not go
together, or a file exists, 3 this machine lacks something it needs"""


class Parser(argparse.ArgumentParser):
    """Parse arguments; report misuse in one sentence."""

    def format_help(self) -> str:
        """Return the help, with this program's name as it was called."""
        return in_help(super().format_help())

    def error(self, message: str) -> NoReturn:
        """Raise SkillError instead of printing the usage."""
        raise SkillError(f"{self.prog}: {message}; see `{self.prog} --help`")


def _at_least(least: int, text: str) -> int:
    value = int(text[:9])
    if value < least or len(text) > 6:
        shown = text if len(text) < 20 else f"{text[:19]}…"
        raise argparse.ArgumentTypeError(f"is {shown}, it must be {least} or more and at most 999999")
    return value


def count(text: str) -> int:
    """Parse a whole number of 1 or more."""
    return _at_least(1, text)


def number(text: str) -> int:
    """Parse a whole number of 0 or more."""
    return _at_least(0, text)


def tokens(text: str) -> int:
    """Parse the length of an answer: the opening of one passage is about as long as the least."""
    return _at_least(50, text)


def positive(text: str) -> float:
    """Parse a number above 0."""
    value = float(text[:20])
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"is {text[:20]}, it must be above 0 and below a million")
    return value


def percent(text: str) -> float:
    """Parse a percentage."""
    value = float(text[:20].removesuffix("%"))
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"is {text[:20]}: a share of the step in percent lies between 0 and 100")
    return value


count.__name__ = number.__name__ = tokens.__name__ = "whole number"  # argparse names the type in its message
positive.__name__ = percent.__name__ = "number"


def add_command(
    commands: argparse._SubParsersAction[Parser], name: str, text: str, example: str, codes: str = EXIT_CODES
) -> Parser:
    """Add the parser of one command: its help, an example and its exit codes."""
    return commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"{example}\n\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_kind(new: Parser) -> None:
    """Declare --training and --inference."""
    kind = new.add_mutually_exclusive_group()
    kind.add_argument("--training", action="store_true", help="the program trains")
    kind.add_argument("--inference", action="store_true", help="the program only runs forward (the default)")


def add_corpus(new: Parser) -> None:
    """Declare --corpus and --json."""
    new.add_argument("--corpus", type=Path, metavar="DIR", help="add the Markdown files of this folder")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
