"""`skill completion`: print a completion script."""

from __future__ import annotations

import sys
from argparse import SUPPRESS
from typing import TYPE_CHECKING

from cudagraph_skill.cli.arguments import Parser, add_command
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill completion`."""
    new = add_command(
        commands,
        "completion",
        "print a completion script for your shell",
        'example: eval "$(skill completion bash)"\n         skill completion fish | source',
    )
    new.add_argument("shell", choices=("bash", "zsh", "tcsh", "fish"))
    new.set_defaults(run=run, json=False)


def run(args: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    top: argparse.ArgumentParser = args.parser()
    _name_choices(_commands(top))
    if args.shell == "fish":
        print("\n".join(_fish(top)))
        return 0
    try:
        import shtab
    except ModuleNotFoundError:
        from cudagraph_skill.setup import extras

        lacking = f"a script for {args.shell} is made with shtab, which {sys.executable} does not have (one for fish is not)"
        raise SkillError(f"{lacking}: run `{extras.installing(['shtab>=1.7,<2'])}`", 3) from None
    print(shtab.complete(top, args.shell))
    return 0


def _commands(top: argparse.ArgumentParser) -> dict[str, Parser]:
    """Return the parser of each command."""
    return dict(top._subparsers._group_actions[0].choices)  # type: ignore  # noqa: PGH003 - no public way


def _name_choices(commands: dict[str, Parser]) -> None:
    """Give arguments that take an id or a workflow their values as choices, for completion only."""
    from cudagraph_skill.cli.explain import known_ids
    from cudagraph_skill.scaffold.options import WORKFLOWS

    workflows = list(WORKFLOWS)
    values = {("explain", "name"): list(known_ids()), ("scaffold", "name"): workflows, ("scaffold", "workflow"): workflows}
    for (command, argument), choices in values.items():
        for action in commands[command]._actions:
            if action.dest == argument:
                action.choices = choices


def _fish(top: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines of a script for fish: commands, their options, and the values of those that have choices."""
    yield "complete -c skill -f -n __fish_use_subcommand -s V -l version"
    helps = {action.dest: action.help or "" for action in top._subparsers._group_actions[0]._choices_actions}  # type: ignore  # noqa: PGH003
    for name, command in _commands(top).items():
        yield f"complete -c skill -f -n __fish_use_subcommand -a {name} -d {_fish_quoted(helps[name])}"
        seen = f"complete -c skill -n '__fish_seen_subcommand_from {name}'"
        for action in command._actions:
            if action.help == SUPPRESS:
                continue
            values = f" -xa {_fish_quoted(' '.join(map(str, action.choices)))}" if action.choices else ""
            takes = values or (" -r" if action.nargs != 0 else "")
            for option in action.option_strings:
                spelled = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                yield f"{seen} {spelled}{takes} -d {_fish_quoted(action.help or '')}"
            if not action.option_strings and values:
                yield f"{seen}{values}"


def _fish_quoted(text: str) -> str:
    """Quote a text for fish, where only a backslash and a quote need an escape."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
