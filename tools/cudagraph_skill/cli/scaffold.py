"""`skill scaffold`: write a program for a workflow, and verify it on the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import PROGRAM_EXIT_CODES, Parser, add_command, add_kind, count, number, positive
from cudagraph_skill.cli.terminal import Progress, say
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import operand

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.scaffold.file import Program
    from cudagraph_skill.scaffold.options import Option

_VERIFY = 600  # seconds


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill scaffold`."""
    from cudagraph_skill.scaffold.options import OPTIONS

    new = add_command(
        commands,
        "scaffold",
        "write a working program for a workflow, with its checks against eager",
        "example: skill scaffold                              (the workflows and options)\n"
        "         skill scaffold manual --training --amp bf16 > step.py\n"
        "         skill scaffold --workflow 3 --training --into step.py --verify\n"
        "         skill scaffold manual --training --module --into step.py      (the step, and check_step.py beside it)\n"
        "         skill scaffold --verify step.py             (run its checks and write a receipt next to it)",
        PROGRAM_EXIT_CODES,
    )
    new.add_argument("name", nargs="?", metavar="WORKFLOW", help="name or number of a workflow; lists all without one")
    new.add_argument("--workflow", metavar="WORKFLOW", help="the same as an option")
    add_kind(new)
    for name, option in OPTIONS.items():
        if name != "training":
            _add_option(new, name, option)
    new.add_argument(
        "--for", action="append", dest="versions", metavar="PKG==V", help="write for this version, for example torch==2.6"
    )
    new.add_argument("--module", action="store_true", help="write two files: a module to keep, and its checks, check_FILE")
    new.add_argument("--into", metavar="FILE", help="write the program to this file instead of stdout")
    new.add_argument("--force", action="store_true", help="overwrite the file of --into, and that of its checks")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    check = new.add_argument_group("on the GPU", "run the checks of the program with your interpreter, in a separate process")
    check.add_argument("--verify", nargs="?", const="", metavar="FILE", help="verify the new program, or this file")
    check.add_argument("--python", metavar="PATH", help="the interpreter with torch (default: that of the active environment)")
    check.add_argument("--deadline", type=positive, metavar="SECONDS", help=f"stop the run after this time (default {_VERIFY})")
    check.add_argument("--processes", type=count, metavar="N", help="number of processes (default: as the program says)")
    new.set_defaults(run=run)


def _add_option(new: Parser, name: str, option: Option) -> None:
    """Add the argument of an option: a flag, a number that may be omitted, or one of several words."""
    default, *others = option.values
    if isinstance(default, bool):
        new.add_argument(f"--{name}", action="store_true", help=option.help)
    elif isinstance(default, int):
        text = f"{option.help} (N is {others[0]} if omitted)"
        new.add_argument(f"--{name}", nargs="?", type=number, const=others[0], default=default, metavar="N", help=text)
    else:
        new.add_argument(f"--{name}", choices=others, help=option.help)


def run(args: argparse.Namespace) -> int:
    """Print or write a program; everything about it goes to stderr, or to stdout if the program goes to a file."""
    asked = _asked(args)
    if not asked["workflow"]:
        return _verify(args, args.verify) if args.verify else _listing(args)
    program = _write(args, asked)
    if args.verify is not None:
        return _verify_written(args, program, _verifying(args))
    return _print(args, program)


def _write(args: argparse.Namespace, asked: dict[str, Any]) -> Program:
    """Render the program, and save it where a file is named; what stands in its way is said before anything is written."""
    from cudagraph_skill.scaffold import file as programs
    from cudagraph_skill.scaffold import render, rules

    wanted = programs.options(asked)
    if args.module:
        rules.divisible(wanted)
    if args.into is not None:
        (programs.writable_module if args.module else programs.writable)(args.into, args.force)
    if args.verify is not None:
        from cudagraph_skill.scaffold import receipt

        receipt.place(Path(render.checks_file(args.into) if args.module else args.into))
    versions = [version for text in args.versions or () for version in text.split(",")]
    program = programs.write(wanted, versions, args.python or "", args.into or "", args.module)
    if args.into is not None:
        programs.save_program(program, args.into, args.force)
    return program


def _print(args: argparse.Namespace, program: Program) -> int:
    """Print the program, or where it was saved, with the step after it."""
    from cudagraph_skill.scaffold import output as scaffolding

    scaffold = f"{next_step.program('scaffold')} {program.command}{_by_python(args)}"
    step = f"{scaffold} --into step.py" if args.into is None else _verifying(args)
    notes = "\n".join([*scaffolding.notes(program, args.into or ""), f"next: {step}"])
    if args.json:
        print(scaffolding.as_json(scaffolding.program_data(program, args.into or "", step)))
    elif args.into is None:
        print(scaffolding.program_text(program), end="", flush=True)
        say(notes)
    else:
        print(notes)
    return 0


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return the workflow and options that were given, where they go together with the others."""
    from cudagraph_skill.scaffold.options import OPTIONS

    if args.name and args.workflow:
        raise SkillError(
            f"skill scaffold: {args.name} and --workflow {args.workflow} both name a workflow: leave one of them out"
        )
    workflow = args.name or args.workflow
    if not workflow:
        _refuse_without_workflow(args, (*OPTIONS, "inference", "versions", "module", "into"))
    if args.into is None:
        _refuse_without_file(args)
    if args.verify is None:
        _refuse_without_verify(args)
    if args.verify and workflow:
        raise SkillError(
            f"skill scaffold: --verify {args.verify} is for a program that is there; to write one and verify it: "
            f"--into {operand(args.verify)} --verify"
        )
    return {"workflow": workflow, **{name: getattr(args, name) for name in (*OPTIONS, "inference")}}


def _refuse_without_workflow(args: argparse.Namespace, options: tuple[str, ...]) -> None:
    """Raise SkillError for an option that says how to write a program, where none is to be written."""
    given = next((name for name in options if getattr(args, name)), "")
    option = "for" if given == "versions" else given
    if args.verify and (given or args.force):
        raise SkillError(
            f"skill scaffold: --verify {args.verify} runs a program that is there, as it stands: "
            f"leave out --{option or 'force'}"
        )
    if given:
        raise SkillError(
            f"skill scaffold: --{option} is given, but no workflow: `skill scaffold` lists them, `skill recommend` names one"
        )


def _refuse_without_file(args: argparse.Namespace) -> None:
    """Raise SkillError for an option that needs --into FILE."""
    if args.force:
        raise SkillError("skill scaffold: --force replaces a file: name it with --into FILE")
    if args.verify == "":
        raise SkillError(
            "skill scaffold: the receipt is kept beside the program: add --into FILE, or name one that is there, --verify FILE"
        )


def _refuse_without_verify(args: argparse.Namespace) -> None:
    """Raise SkillError for an option that needs --verify."""
    for name in ("deadline", "processes"):
        if getattr(args, name) is not None:
            raise SkillError(f"skill scaffold: --{name} is for a run on the GPU: add --verify")


def _listing(args: argparse.Namespace) -> int:
    from cudagraph_skill.scaffold import output as scaffolding

    step = next_step.program("recommend")
    print(scaffolding.as_json(scaffolding.listing_data(step)) if args.json else scaffolding.listing(step))
    return 0


def _verifying(args: argparse.Namespace) -> str:
    """Return the command that verifies what was written."""
    return f"{next_step.program('scaffold')} --verify {operand(args.into)}{_by_python(args)}"


def _by_python(args: argparse.Namespace) -> str:
    return f" --python {operand(args.python)}" if args.python else ""


def _verify_written(args: argparse.Namespace, program: Program, step: str) -> int:
    """Verify what this call has written; where that cannot begin, the file and the way on are named."""
    from cudagraph_skill.scaffold import output as scaffolding

    for note in scaffolding.notes(program, args.into):
        say(note)
    try:
        return _verify(args, args.into, f"skill scaffold {program.command}", scaffolding.program_data(program, args.into, step))
    except SkillError as error:
        again = step if args.python or "--python" not in str(error) else f"{step} --python PYTHON"
        raise SkillError(f"{error}; {args.into} is written, next: {again}", error.exit_code) from None
    except KeyboardInterrupt:
        say(f"{args.into} is written and not verified, next: {step}")
        raise


def _verify(args: argparse.Namespace, file: str, command: str = "", written: dict[str, Any] | None = None) -> int:
    """Run the checks of a program on the GPU; what lasts is told on stderr."""
    from cudagraph_skill.capture import interpreter
    from cudagraph_skill.scaffold import file as programs
    from cudagraph_skill.scaffold import output as scaffolding
    from cudagraph_skill.scaffold import receipt

    path = receipt.checked_by(Path(file))
    processes = args.processes or programs.processes(receipt.program_text(path))
    with Progress() as progress:
        made = receipt.verify(
            path,
            python=args.python or interpreter.environment_python(),
            deadline=args.deadline or _VERIFY,
            processes=processes,
            command=command,
            on_progress=progress.say,
        )
    try:
        kept = str(receipt.write(made, path))
    except SkillError as error:
        kept = ""
        say(str(error))
    step = scaffolding.next_step(made, next_step.steps(args))
    if args.json:
        print(scaffolding.as_json({**(written or {}), **scaffolding.data(made, step, kept)}))
    else:
        print(scaffolding.text(made, step, kept))
    return scaffolding.exit_code(made)
