"""`skill tune`: which way of capturing a call is the fastest on this GPU, and its code."""

from __future__ import annotations

from argparse import SUPPRESS
from functools import cache
from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import add_command, count
from cudagraph_skill.cli.check import add_code, named_verdict
from cudagraph_skill.cli.map import add_html, refuse_html, requested, write_html
from cudagraph_skill.cli.terminal import Progress, colour, echo, say
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import as_json

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.capture.request import Request
    from cudagraph_skill.cli.arguments import Parser
    from cudagraph_skill.tune.code import Proposal


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill tune`."""
    new = add_command(
        commands,
        "tune",
        "try the ways of capturing a call on the GPU, and write the fastest right one",
        "example: skill tune train.py:step --inputs batch\n"
        "         skill tune train.py:step --inputs batch --patch\n"
        "         skill tune --target Trainer.step -- python train.py --steps 20\n\n"
        "eager, torch.compile, reduce-overhead, make_graphed_callables, a manual capture, one over a compiled function, and,\n"
        "where the whole does not capture, the modules that do: each is compared with eager calls, and timed in three rounds,\n"
        "in processes of its own. They set up beside each other, and are timed one after the other. Prints the times with\n"
        "their spread, and the code of the fastest way that is right: a module that imports your function. --patch prints a\n"
        "change of your file instead, --apply makes it. The call runs many times. A program after -- is started up to 25\n"
        "times, one after the other, each time until its own calls are compared or timed, and its code is a change of the\n"
        "file; where its check takes over 20 seconds, each way is timed once. Comparisons of a callable end at 1.25 times\n"
        "--deadline; no process starts after ten minutes",
        "exit codes: 0 a right way is faster than eager, 1 none is, 2 the command was not understood, or the code fails\n"
        "without a graph, 3 this machine lacks something it needs, 4 eager runs differ too much to compare with",
    )
    new.add_argument("targets", nargs="*", metavar="FILE[:FUNCTION]", help="the callable; FILE alone needs make() in it")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    add_html(new)
    new.add_argument("--write", metavar="FILE", help="write the module of code to a new file instead of printing it")
    new.add_argument("--patch", action="store_true", help="print the code as a change of your file")
    new.add_argument("--apply", action="store_true", help="make that change")
    add_code(new)
    new.add_argument("--nproc", type=count, help=SUPPRESS)  # refused in words
    new.add_argument("--continue", action="store_true", dest="continue_", help=SUPPRESS)  # too
    new.set_defaults(run=run, program=None, function=None)


def run(args: argparse.Namespace) -> int:
    """Print what was tried and the code of the choice; return the exit code."""
    from cudagraph_skill.capture import session
    from cudagraph_skill.check.input.source import lines_of
    from cudagraph_skill.check.output import Reader
    from cudagraph_skill.tune import code as code_of
    from cudagraph_skill.tune import output, trials

    with named_verdict():
        request = _request(args)
        with Progress() as progress, session.Guests() as guests:
            tuning = trials.tuned(request, guests, session.Listener(progress.say, forward=echo))
        assert tuning is not None  # nothing cancels it here
        if tuning.checked.verdict == "misuse":
            raise SkillError(tuning.checked.said)
    proposal = code_of.proposed(request, tuning, patch=args.patch or args.apply)
    if proposal.said:
        say(f"skill tune: {proposal.said}")
    code = proposal.code
    reader = Reader(next_step.steps(args), cache(lines_of), colour())
    print(as_json(output.data(tuning, reader, code)) if args.json else output.text(tuning, reader, code))
    if args.html:
        from cudagraph_skill.report import of_tune

        write_html(args, "tune", of_tune.page(tuning, reader.steps, code))
    _write(args, proposal)  # after the answer, which a full disk must not lose
    return output.exit_code(tuning)


def _request(args: argparse.Namespace) -> Request:
    """Return the one callable to tune.

    Raises:
        SkillError: the arguments do not fit together, or a file to write is in the way.
    """
    from cudagraph_skill.report import file

    if args.continue_:
        raise SkillError("skill tune: it starts a program for each way, and none of them goes on: leave out --continue")
    if args.program is not None and args.write:
        raise SkillError("skill tune: --write has a module that a program does not call: --patch prints a change of its file")
    requests = requested(args, "tune")
    if len(requests) > 1:
        raise SkillError("skill tune: it tries one callable at a time: leave the others out")
    if args.write and (args.patch or args.apply):
        raise SkillError("skill tune: --write has the code as a module, --patch and --apply as a change: give one of them")
    refuse_html(args, "tune")
    if args.write:
        file.refuse("skill tune: --write", args.write, ".py", args.force)
    return requests[0]


def _write(args: argparse.Namespace, proposal: Proposal) -> None:
    """Write what was asked to be written.

    Raises:
        SkillError: a file cannot be written.
    """
    from cudagraph_skill import files
    from cudagraph_skill.report import file

    if args.write and proposal.code:
        file.save(proposal.code, "skill tune: --write", args.write, ".py", args.force)
        say(f"wrote {args.write}")
    for change in reversed(proposal.changes) if args.apply else ():  # the wrapper first: nothing imports it yet
        try:
            files.save(change.after, change.path.resolve(), force=change.before is not None)
        except OSError as error:
            raise SkillError(
                f"skill tune: --apply: {change.path} is not written: {error.strerror}; the change is above"
            ) from None
        say(f"changed {change.path}")
