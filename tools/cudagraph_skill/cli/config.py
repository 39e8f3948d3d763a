"""`skill config`: check the CUDA-graph settings of Megatron and Transformer Engine for the releases in use."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli.arguments import Parser, add_command
from cudagraph_skill.cli.terminal import say
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import as_json, quoted

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill config`."""
    new = add_command(
        commands,
        "config",
        "check the CUDA-graph settings of Megatron and Transformer Engine for your versions",
        "example: skill config pretrain.sh --for megatron-core==0.18.2 --arch sm_90\n"
        '         skill config --flags "--cuda-graph-impl local --cuda-graph-scope attn" --for megatron-core==0.18.2\n'
        "         skill config recipe.py --for megatron-bridge==0.4.2 --diff",
        "exit codes: 0 nothing found, 1 a constraint is violated or a name is old, 2 the command or file was not understood,\n"
        "3 the file cannot be written, 4 nothing found, but a part that was not read may change that",
    )
    new.add_argument("file", nargs="?", metavar="FILE", help="a shell script, recipe (.py), YAML or JSON; - reads stdin")
    new.add_argument("--flags", metavar="TEXT", help="check these flags instead of a file")
    new.add_argument(
        "--for",
        action="append",
        dest="versions",
        metavar="PKG==V",
        help="check for this release of megatron-core, megatron-bridge or transformer-engine (default: those installed)",
    )
    new.add_argument("--arch", metavar="SM", help="architecture of the GPU, for example sm_90")
    new.add_argument("--env", action="append", metavar="NAME=VALUE", help="a variable of the run's environment")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    change = new.add_mutually_exclusive_group()
    change.add_argument("--diff", action="store_true", help="show the corrected setting as a diff")
    change.add_argument("--fix", action="store_true", help="write the corrections into the file")
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was found, and the corrections where they were asked for."""
    from cudagraph_skill.config import correct, examine, output
    from cudagraph_skill.config.reading import arch_of

    text, suffix, name = _text(args)
    wanted = [version for one in args.versions or () for version in one.split(",")]
    arch = arch_of(args.arch) if args.arch else None
    path = Path(args.file).resolve() if args.file not in (None, "-") else None
    check = partial(examine, suffix=suffix, wanted=wanted, variables=_environment(args), arch=arch, path=path)
    report = check(text)
    corrected = correct(text, check) if args.diff or args.fix else None
    if args.json:
        print(as_json(output.data(report, corrected.text if corrected else None)))
    else:
        print(output.text(report, name))
    if corrected:
        for reason in corrected.left:
            say(f"note: {reason}")
        _show_or_write(args, name, text, corrected.text)
    return output.exit_code(report)


def _text(args: argparse.Namespace) -> tuple[str, str, str]:
    """Return the text to check, the suffix that says what it is, and its name in messages.

    Raises:
        SkillError: None or both of a file and flags are given, or the file cannot be read.
    """
    from cudagraph_skill.config.reading import read_file

    if (args.file is None) == (args.flags is None):
        raise SkillError('skill config: name one file, or give flags: skill config --flags "--cuda-graph-impl local"')
    if args.flags is not None:
        return args.flags, ".sh", "--flags"
    return *read_file(args.file), args.file


def _environment(args: argparse.Namespace) -> dict[str, str]:
    """Return the variables that `--env` gives.

    Raises:
        SkillError: One has no value.
    """
    given = [one.partition("=") for one in args.env or ()]
    for name, equals, _ in given:
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise SkillError(f"skill config: `--env {quoted(name)}` is no variable with a value: write --env NAME=VALUE")
    return {name: value for name, _, value in given}


def _show_or_write(args: argparse.Namespace, name: str, before: str, after: str) -> None:
    from cudagraph_skill.check.fixes import Patch, apply, diff

    if before == after:
        say("note: nothing to change in the text")
        return
    patch = Patch(name, before.encode(), after.encode(), 1, 0)
    if args.diff:
        if not args.json:
            print(diff(patch))
        return
    if args.file in (None, "-") or not os.path.isfile(args.file):  # noqa: PTH113 - as the user wrote it
        raise SkillError("skill config: --fix changes a file; for flags and stdin use --diff")
    apply(patch)
    say(f"{name}: corrected")
