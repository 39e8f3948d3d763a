"""`skill verify`: run again on this GPU what the claims of card.yaml rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.cli.arguments import add_command, count, positive
from cudagraph_skill.cli.terminal import Progress
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.cli.arguments import Parser

_SAMPLE, _DEADLINE = 12, 240.0


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill verify`."""
    new = add_command(
        commands,
        "verify",
        "run again on your GPU what the claims of card.yaml rest on",
        "example: skill verify\n"
        "         skill verify --list\n"
        "         skill verify error-entries hazards --all --json\n\n"
        f"of each claim {_SAMPLE} programs, or all with --all: code of the references, programs that raise the errors,\n"
        "functions that check --run judges, programs of scaffold, a workload of bench; each in a process of its own, in an\n"
        "empty folder, under a deadline. It runs only programs of this package, and says what it did not run, and why",
        "exit codes: 0 what ran holds, 1 something differs here, 2 the command was not understood, 3 this machine lacks a GPU\n"
        "or a package",
    )
    new.add_argument("claims", nargs="*", metavar="CLAIM", help="a claim of --list (default: all)")
    new.add_argument("--list", action="store_true", help="list the claims, where each was seen, and what is run for it")
    new.add_argument("--sample", type=count, metavar="N", help=f"programs of each claim (default {_SAMPLE})")
    new.add_argument("--all", action="store_true", help="run all programs of each claim")
    new.add_argument("--python", metavar="PATH", help="the interpreter with torch (default: that of the active environment)")
    new.add_argument(
        "--deadline", type=positive, metavar="SECONDS", help=f"stop a program after this time (default {_DEADLINE:g})"
    )
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print each claim as soon as its programs ran; 1 where something differs."""
    from cudagraph_skill.capture import session
    from cudagraph_skill.capture.interpreter import environment_python, interpreter
    from cudagraph_skill.paths import skill_root
    from cudagraph_skill.verify import card, output, probes

    if args.all and args.sample:
        raise SkillError("skill verify: `--all` leaves nothing to `--sample`: leave out one of them")
    claims = card.chosen(card.claims(skill_root()), args.claims)
    if args.list:
        print(as_json(output.listed_data(claims)) if args.json else output.listed_text(claims))
        return 0
    all_found = []
    with Progress() as progress:
        progress.say("asking the interpreter that has torch")
        here = probes.machine(interpreter(args.python) if args.python else environment_python())
        most = 0 if args.all else args.sample or _SAMPLE
        plan = probes.Plan(skill_root(), here, most, args.deadline or _DEADLINE, session.Listener(progress.say))
        for found in probes.verified(claims, plan):
            all_found.append(found)
            if not args.json:
                print(output.found_text(found), flush=True)
    print(as_json(output.found_data(all_found, here.shown)) if args.json else output.summary(all_found, here.shown))
    return int(any(found.state == "differs" for found in all_found))
