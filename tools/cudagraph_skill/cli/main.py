"""Parse a command line, run its command, and turn errors into one sentence and an exit code."""

from __future__ import annotations

import argparse
import difflib
import io
import sys
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

from cudagraph_skill import __version__
from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import EXIT_CODES, Parser
from cudagraph_skill.cli.terminal import leave_quietly, say
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS = (  # modules of this package; a command is not imported for another one
    "search", "read", "errors", "explain", "check", "map", "decide", "tune", "bench", "config", "recommend", "scaffold",
    "serve", "install", "doctor", "verify", "completion",
)  # fmt: skip


def parser(only: str = "") -> argparse.ArgumentParser:
    """Return the parser of all commands, or of one; shell completion is made from it too."""
    top = Parser(
        prog="skill",
        description="CUDA Graphs for PyTorch. Offline answers with cited sources.",
        epilog=f'example: skill search "backward fails during capture"\n\n{EXIT_CODES}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("-V", "--version", action="version", version=f"skill {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name in [only] if only else COMMANDS:
        import_module(f"cudagraph_skill.cli.{name}").add(commands)
    if "completion" in commands.choices:
        commands.choices["completion"].set_defaults(parser=parser)
    return top


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    if argv and argv[0] == "help":
        argv = [*argv[1:2], "--help"]
    elif list(argv) == ["version"]:
        argv = ["--version"]
    top = parser(argv[0] if argv and argv[0] in COMMANDS else "")
    commands: dict[str, Parser] = top._subparsers._group_actions[0].choices  # type: ignore  # noqa: PGH003 - no public way
    if argv and not argv[0].startswith("-") and argv[0] not in commands:
        near = difflib.get_close_matches(argv[0], commands, 1)
        hint = f"did you mean `skill {near[0]}`?" if near else f'to ask, type: skill search "{argv[0]}"'
        raise SkillError(f"skill: there is no command `{argv[0]}`; {hint}")
    argv, program = _divided(_with_flags(argv))
    args, unknown = top.parse_known_args(argv)
    if program is not None:
        args.program = program
    if unknown and args.command is None:
        _refuse_before_command(unknown[0])
    elif unknown:
        _refuse(unknown, args, commands[args.command])
    return args


def _with_flags(argv: Sequence[str]) -> Sequence[str]:
    """Tie the text of `config --flags` to its option: a single flag looks like an option of ours to argparse."""
    if list(argv[:1]) != ["config"] or "--flags" not in argv[:-1]:
        return argv
    at = argv.index("--flags")
    return [*argv[:at], f"--flags={argv[at + 1]}", *argv[at + 2 :]]


def _divided(argv: Sequence[str]) -> tuple[Sequence[str], list[str] | None]:
    """Split off the command after `--` of a run, which is not ours to parse."""
    if "--" not in argv or not _is_run(argv):
        return argv, None
    end = argv.index("--")
    return argv[:end], list(argv[end + 1 :])


def _is_run(argv: Sequence[str]) -> bool:
    """Return whether a command captures on the GPU; its JSON has a verdict."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    name = "".join(own[:1])
    return (
        name in ("map", "tune", "bench") or (name == "check" and "--run" in own) or (name == "decide" and "--trace" not in own)
    )


def _parsed_run(argv: Sequence[str]) -> argparse.Namespace:
    from cudagraph_skill.cli.check import named_verdict

    with named_verdict():
        return _parsed(argv)


def _refuse(unknown: list[str], args: argparse.Namespace, command: Parser) -> None:
    """Raise for arguments that the command does not have; `search` takes an unknown option as a word of the question."""
    option = unknown[0].partition("=")[0]
    options = list(command._option_string_actions)
    if option in options:
        raise SkillError(f"skill: {option} is an option of `{args.command}`: write `skill {args.command} {option}`")
    near = difflib.get_close_matches(option, options, 1, 0.75)
    if args.command == "search" and not near:
        args.question = [*args.question, *unknown]
        return
    if args.command == "check" and unknown[0].startswith("-:"):  # standard input and a function of it
        args.targets = [*args.targets, *unknown]
        return
    if not unknown[0].startswith("-"):
        raise SkillError(f"skill {args.command}: `{unknown[0]}` is one argument too many; see `skill {args.command} --help`")
    hint = f"did you mean {near[0]}?" if near else f"see `skill {args.command} --help`"
    raise SkillError(f"skill {args.command}: there is no option {unknown[0]}; {hint}")


def _refuse_before_command(option: str) -> None:
    """Raise for an option without a command."""
    near = difflib.get_close_matches(option, ("--version", "--help"), 1)
    hint = f"did you mean {near[0]}?" if near else "see `skill --help`"
    raise SkillError(f"skill: there is no option {option}; {hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see EXIT_CODES); nothing that a user can cause ends in a traceback."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _answered(arguments)
    except BrokenPipeError:  # the reader (head, less) has gone: nothing more to say
        leave_quietly(sys.stdout)
        return 0
    except OSError as error:
        say(f"{error.strerror}: {error.filename or 'standard output'}")
        leave_quietly(sys.stdout)
        return 3
    except KeyboardInterrupt:
        return 130


def launched(command: str) -> int:
    """Run one command with the arguments of its launcher."""
    return main([command, *sys.argv[1:]])


def _answered(arguments: Sequence[str]) -> int:
    """Run one command; print a SkillError on stderr, and on stdout if JSON was asked for."""
    try:
        args = _parsed(arguments) if not _is_run(arguments) else _parsed_run(arguments)
        run: Callable[[argparse.Namespace], int] | None = getattr(args, "run", None)
        if run is None:
            parser().print_help()
            return 0
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII only still gets the answer
        return run(args)
    except SkillError as error:
        sentence = next_step.as_called(str(error))
        say(sentence)
        ours, _ = _divided(arguments)
        if "--json" in ours or "--output-format=json" in ours or ("--output-format", "json") in pairwise(ours):
            from cudagraph_skill.text import error_json

            print(error_json(sentence, error.fields))
        return error.exit_code
    finally:  # also after --help; what cannot be written is seen here, not by Python at its exit
        if sys.stdout:
            sys.stdout.flush()
