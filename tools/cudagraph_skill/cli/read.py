"""`skill read`: print one section, or the headings of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command, add_corpus
from cudagraph_skill.cli.references import open_references
from cudagraph_skill.cli.terminal import colour, say

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill read`."""
    new = add_command(
        commands,
        "read",
        "print one section, or the headings of a file",
        "example: skill read references/streams.md\n         skill read SKILL.md#requirements",
    )
    new.add_argument("ref", metavar="PATH[#HEADING|:LINE]", help="a path as `skill search` prints it")
    add_corpus(new)
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one section, or the headings of a file; return 1 if there is none of that name."""
    from cudagraph_skill.corpus import lookup
    from cudagraph_skill.corpus import output as answers
    from cudagraph_skill.text import error_json

    reading = lookup.find(open_references(args).sections(), args.ref, next_step.steps(args))
    if isinstance(reading, lookup.Missing):
        sentence = str(reading)
        say(sentence)
        if args.json:
            print(error_json(sentence))
        return 1
    if len(reading) == 1:
        print(answers.section_json(reading[0]) if args.json else answers.section(reading[0], colour()))
    else:
        print(answers.contents_json(reading) if args.json else answers.contents(reading, next_step.steps(args)))
    return 0
