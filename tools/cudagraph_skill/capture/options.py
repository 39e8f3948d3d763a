"""Turn the arguments of `skill check --run` into requests, and find the interpreter that runs the user's code."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.capture import torchrun
from cudagraph_skill.capture.interpreter import environment_python, resolved
from cudagraph_skill.capture.request import Launch, Request, locate
from cudagraph_skill.capture.torchrun import TORCHRUN
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*t?d?$")
_LAUNCHERS = {"accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun"}
_LAUNCHING_MODULES = {"torch.distributed.launch", "accelerate.commands.launch"}
_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}  # options of Python that take a value
_STATIC_ONLY = ("allow_unread", "fix", "diff", "all", "select", "ignore", "exclude", "explain_finding")
_RUN_ONLY = ("inputs", "make", "shape", "warmup", "deadline", "memory", "target", "continue_", "skip", "nproc")


class Command(NamedTuple):
    """A command line that starts Python: the interpreter, "" if it names none; its options; the program with arguments.

    `torchrun` has the options of the torchrun that starts the program, None if none does.
    """

    python: str
    flags: tuple[str, ...]
    program: tuple[str, ...]
    torchrun: tuple[str, ...] | None = None


def refuse_without_run(args: argparse.Namespace) -> None:
    """Raise if an option of a run is given without --run."""
    given = next((option for option in _RUN_ONLY if getattr(args, option, None)), None)
    if given:
        raise SkillError(f"skill check: {_option(given)} is for a run on the GPU: add --run")


def requests(args: argparse.Namespace, program: Sequence[str] | None) -> list[Request]:
    """Return what to capture; `program` is the command after `--`, None if there is no `--`.

    Raises:
        SkillError: the arguments do not fit together, or name what is not there.
    """
    given = next((item for item in _STATIC_ONLY if getattr(args, item, None)), None)
    if given:
        raise SkillError(f"skill check: {_option(given)} is for the check of the source, --run captures the code as it stands")
    shared = Request(
        "", args.python or "", str(Path.cwd()), deadline=args.deadline or 120.0, memory=int((args.memory or 0) * (1 << 30))
    )
    if program is not None:
        return [_live(args, program, shared)]
    for name in ("target", "continue_", "skip", "nproc"):
        if getattr(args, name):
            raise SkillError(
                f"skill check: {_option(name)} is for a program that runs: add its command at the end, `-- python train.py`"
            )
    targets = _targets(args)
    beside = {"inputs": args.inputs or "", "make": args.make or "", "shapes": tuple(args.shape or ()), "warmup": args.warmup}
    python = shared.python or environment_python()
    return [shared._replace(target=item, python=python, **beside) for item in targets]


def _option(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


def _targets(args: argparse.Namespace) -> list[str]:
    """Return the callables that were named."""
    if not args.targets:
        raise SkillError("skill check: --run captures a callable: name it as FILE:FUNCTION, or give a command after `--`")
    if any(target == "-" or target.startswith("-:") for target in args.targets):
        raise SkillError("skill check: --run imports a file, and standard input is none: save the source and name the file")
    if args.function is not None:
        if len(args.targets) > 1:
            raise SkillError("skill check: --function is for one file; with several, write FILE:FUNCTION")
        args.targets = [f"{args.targets[0]}:{args.function}"]
    for target in args.targets:
        locate(target)
    if sum(map(bool, (args.inputs, args.make, args.shape))) > 1:
        raise SkillError("skill check: --inputs, --make and --shape each say what the arguments are: give one of them")
    return list(args.targets)


def _live(args: argparse.Namespace, program: Sequence[str], shared: Request) -> Request:
    """Return the request that captures a call within a running program."""
    command = parse(program)
    if not args.target and not args.targets:
        raise SkillError(
            "skill check: which call of the program is to be captured? add --target FUNCTION, as the program names it"
        )
    if args.targets:
        raise SkillError(
            f"skill check: `{args.targets[0]}` stands beside a command: name the function to capture with --target"
        )
    for name in ("inputs", "make", "shape"):
        if getattr(args, name):
            raise SkillError(f"skill check: {_option(name)} makes arguments, and the program passes its own: leave it out")
    if command.python and shared.python:
        raise SkillError(
            f"skill check: --python {shared.python}, but the command names {command.python}: leave one of them out"
        )
    if ":" in args.target:
        locate(args.target)
    python = resolved(command.python) if command.python else shared.python or environment_python()
    launch = launched(command, args.nproc)
    return shared._replace(
        target=args.target,
        python=python,
        flags=() if launch and launch.flags else command.flags,
        program=command.program,
        launch=launch,
        warmup=args.warmup,
        go_on=bool(args.continue_),
        skip=args.skip,
    )


def parse(program: Sequence[str]) -> Command:
    """Parse the command after `--`: `python [options] script args`, `python -m mod args`, `script.py args`, torchrun.

    Raises:
        SkillError: it starts no Python program that can be watched.
    """
    if not program:
        raise SkillError("skill check: after `--` stands no command: give one, such as `-- python train.py`")
    first = Path(program[0]).name
    if first == "torchrun":
        return _under_torchrun(torchrun.interpreter(program[0]), (), program[1:])
    if first in _LAUNCHERS:
        raise _one_process(first)
    if first.endswith(".py"):
        return Command("", (), _script(program))
    if not _INTERPRETER.match(first):
        raise SkillError(f"skill check: {program[0]} is no Python command: write `-- python SCRIPT ARGUMENTS`")
    place = 1
    while place < len(program) and program[place].startswith("-") and not program[place].startswith(("-m", "-c")):
        place += 2 if program[place] in _WITH_VALUE else 1
    flags, rest = tuple(program[1:place]), list(program[place:])
    if not rest or rest[0].startswith("-c") or "-" in flags:
        raise SkillError("skill check: the command has to name a script or a module (`-m`), so that its lines can be named")
    if rest[0].startswith("-m"):
        words = _module(rest)
        return _under_torchrun(program[0], flags, words[2:]) if words[1] == TORCHRUN else Command(program[0], flags, words)
    return Command(program[0], flags, _script(rest))


def starts_ranks(program: Sequence[str]) -> bool:
    """Return whether a command starts several processes, by torchrun or another launcher."""
    named = {Path(program[0]).name} if program else set()
    modules = {module for option, module in pairwise(program) if option == "-m"}
    return bool(named & {"torchrun", *_LAUNCHERS} or modules & {TORCHRUN, *_LAUNCHING_MODULES})


def _under_torchrun(python: str, flags: tuple[str, ...], words: Sequence[str]) -> Command:
    """Return the program that torchrun is to start, with torchrun's options."""
    options, program = torchrun.divided(words)
    return Command(python, flags, _module(program) if program[0] == "-m" else _script(program), tuple(options))


def _module(rest: list[str]) -> tuple[str, ...]:
    """Return `-m mod args`, also if it was written `-mmod`."""
    words = rest if rest[0] == "-m" else ["-m", rest[0][2:], *rest[1:]]
    if len(words) < 2:
        raise SkillError("skill check: after -m stands no module")
    if words[1] in _LAUNCHING_MODULES:
        raise _one_process(words[1])
    return tuple(words)


def _script(program: Sequence[str]) -> tuple[str, ...]:
    if not Path(program[0]).is_file():
        raise SkillError(f"{program[0]}: there is no such script")
    return tuple(program)


def _one_process(launcher: str) -> SkillError:
    only = "and of such programs the check knows torchrun's: give the `torchrun` command, or the python command with `--nproc`"
    return SkillError(f"skill check: {launcher} starts several processes, {only}")


def launched(command: Command, nproc: int | None) -> Launch | None:
    """Return how torchrun starts the ranks of a command; None for a program of one process.

    Raises:
        SkillError: the command and `--nproc` name different numbers of ranks.
    """
    if command.torchrun is None:
        return None if nproc is None else Launch(("--standalone", f"--nproc-per-node={nproc}"), command.flags)
    named = torchrun.ranks(command.torchrun)
    if nproc is not None and named and named != str(nproc):
        raise SkillError(
            f"skill check: --nproc {nproc}, but torchrun was given --nproc-per-node={named}: leave one of them out"
        )
    more = () if named else (f"--nproc-per-node={nproc or 1}",)
    return Launch((*command.torchrun, *more), ())
