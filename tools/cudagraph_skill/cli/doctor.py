"""`skill doctor`: check what this machine has and what was installed with `skill install`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command
from cudagraph_skill.cli.terminal import Progress
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill doctor`."""
    new = add_command(
        commands,
        "doctor",
        "check Python, torch, driver and GPU, the search index, and what is registered with assistants",
        "example: skill doctor\n"
        "         skill doctor --python ~/env/bin/python --json\n\n"
        "one line a check: ok, none (not there, which is no error) or wrong, with its fix; nothing is written",
        "exit codes: 0 nothing to fix, 1 something to fix, 2 the command was not understood",
    )
    new.add_argument("--python", metavar="PATH", help="the interpreter with torch (default: that of the active environment)")
    new.add_argument("--folder", metavar="FOLDER", help="the project whose configurations are checked (default: this folder)")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the checks; 1 where one is wrong."""
    from cudagraph_skill.setup import doctor, output

    folder = Path(args.folder or ".")
    if not folder.is_dir():
        raise SkillError(f"skill doctor: `--folder {args.folder}` is no folder: name that of the project")
    with Progress() as progress:
        progress.say("asking the interpreter that has torch")
        checks = doctor.checks(args.python or "", folder.resolve())
    if args.json:
        print(as_json(output.checks_data(checks)))
    else:
        print(next_step.as_called(output.checks_text(checks)))
    return int(any(check.state == "wrong" for check in checks))
