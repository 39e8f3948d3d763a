"""`skill search`: answer a question with passages of the references."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command, add_corpus, count, tokens
from cudagraph_skill.cli.references import open_references
from cudagraph_skill.cli.terminal import colour, say
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill search`."""
    new = add_command(
        commands,
        "search",
        "answer a question with the shortest passages that suffice",
        'example: skill search "dropout gives the same mask every step"\n'
        "         skill search --limit 1 cudaErrorStreamCaptureUnjoined",
    )
    new.add_argument("question", nargs="*", help="a question, an API name, a flag or an error text; - reads it from stdin")
    new.add_argument("--limit", type=count, default=3, metavar="K", help="how many passages (default 3)")
    new.add_argument("--page", type=count, default=1, metavar="N", help="passages after the first (N-1)*K (default 1)")
    size = new.add_mutually_exclusive_group()
    size.add_argument(
        "--max-tokens",
        type=tokens,
        metavar="T",
        help="length of all passages together, 50 or more (default 235 for each, at least 400)",
    )
    size.add_argument("--full", action="store_true", help="whole sections, however long")
    add_corpus(new)
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print passages that answer the question; return 1 if none does."""
    from cudagraph_skill.corpus import output as answers
    from cudagraph_skill.corpus import rank

    steps = next_step.steps(args)
    question = rank.checked(_question(args.question))
    answer = open_references(args).search(question, args.limit, args.page, 10**9 if args.full else args.max_tokens)
    if args.json:
        print(answers.answer_json(answer, args.page, steps))
    elif answer.hits:
        print(answers.answer(answer, args.page, steps, colour()))
    else:
        say(answers.nothing_found(answer, question, steps))
    return 0 if answer.hits else 1


def _question(parts: list[str]) -> str:
    if parts == ["-"]:
        if sys.stdin is None:
            raise SkillError("- reads the question from standard input, which is closed")
        return sys.stdin.buffer.read(1 << 22).decode("utf-8", "replace")
    return " ".join(parts)
