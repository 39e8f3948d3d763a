"""`skill install`: register the server with an assistant, or copy the skill's files into its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command
from cudagraph_skill.cli.terminal import say
from cudagraph_skill.errors import SkillError
from cudagraph_skill.setup.clients import CLIENTS
from cudagraph_skill.text import as_json, operand

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill install`."""
    new = add_command(
        commands,
        "install",
        "register the MCP server with an assistant, or copy the skill into its folder; shows what changes, writes with --yes",
        "example: skill install claude\n"
        "         skill install codex --yes\n"
        "         skill install vscode --scope project --folder . --yes\n"
        "         skill install cursor --as skill --yes\n"
        "         skill install codex --undo --yes\n\n"
        "the entry is inserted as text: comments, order and format of the rest stay, and --undo restores the file as it was;\n"
        "a server of the same name that this command did not write is never replaced. Without a CLIENT: the list of them",
        "exit codes: 0 written, or shown, or there already, 1 refused: the configuration is broken or a link, or has another\n"
        "server of this name; nothing is written, and what to do by hand is said, 2 the command was not understood,\n"
        "3 the file cannot be read or written, or this Python lacks what the server needs",
    )
    new.add_argument(
        "client", nargs="?", metavar="CLIENT", type=str.lower, choices=tuple(CLIENTS), help=f"one of {', '.join(CLIENTS)}"
    )
    new.add_argument(
        "--as", dest="what", choices=("server", "skill"), default="server", help="what to install (default server)"
    )
    new.add_argument("--scope", choices=("user", "project"), default="user", help="for you, or for one project (default user)")
    new.add_argument("--folder", metavar="FOLDER", help="the project of --scope project (default: this folder)")
    new.add_argument("--yes", action="store_true", help="write it")
    new.add_argument("--undo", action="store_true", help="take out what this command has put in")
    new.add_argument("--allow", action="append", metavar="FOLDER", help="let the server run code of this folder on the GPU")
    new.add_argument("--python", metavar="PATH", help="the interpreter with torch that the server uses for that")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show what changes, and write it where that was asked for."""
    if args.client is None:
        print(_listing())
        return 0
    project = _project(args)
    if args.what == "skill" and (args.allow or args.python):
        raise SkillError("skill install: `--allow` and `--python` are for the server: leave them out, or use `--as server`")
    path, note, shown = (_skill if args.what == "skill" else _server)(args, project)
    done = "nothing" if note else "written" if args.yes else "shown"
    if args.json:
        print(as_json({"client": args.client, "path": str(path), "done": done, "change": shown or note}))
        return 0
    print(note or shown)
    if done == "shown":
        say(f"nothing is written yet; next: {_again(args)} --yes")
    elif done == "written":
        say(_after(args, project))
    return 0


def _server(args: argparse.Namespace, project: Path | None) -> tuple[Path, str, str]:
    """Return the configuration, what to say where nothing changes, and the change, which is made with --yes."""
    from cudagraph_skill.setup import output, registration, serving
    from cudagraph_skill.setup.clients import configuration

    client = CLIENTS[args.client]
    path = configuration(client, project)
    if args.undo:
        change = registration.unregistered(client, path, _known(args))
    else:
        new = registration.wanted(client, serving.command(args.allow or (), args.python or ""))
        change = registration.registered(client, path, new)
    shown = "" if change.note else output.difference(change)
    if args.yes and not change.note:
        registration.write(change)
    return path, change.note, shown


def _known(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return the entry that this call would write, which is ours also where no receipt is left; None if it cannot be told."""
    from cudagraph_skill.setup import registration, serving

    try:
        return registration.wanted(CLIENTS[args.client], serving.command(args.allow or (), args.python or ""))
    except SkillError:
        return None


def _skill(args: argparse.Namespace, project: Path | None) -> tuple[Path, str, str]:
    from cudagraph_skill.setup import folder, output
    from cudagraph_skill.setup.clients import skills

    path = skills(CLIENTS[args.client], project)
    copy = folder.taken_away(path) if args.undo else folder.copied(path)
    shown = "" if copy.note else output.copy_text(copy)
    if args.yes and not copy.note:
        folder.write(copy)
    return path, copy.note, shown


def _project(args: argparse.Namespace) -> Path | None:
    """Return the folder of the project; None for the user's own configuration.

    Raises:
        SkillError: It is no folder, or no project was asked for.
    """
    if args.scope == "user":
        if args.folder is not None:
            raise SkillError("skill install: `--folder` names a project: add `--scope project`")
        return None
    folder = Path(args.folder or ".")
    if not folder.is_dir():
        raise SkillError(f"skill install: `--folder {args.folder}` is no folder: name that of the project")
    return folder.resolve()


def _again(args: argparse.Namespace) -> str:
    """Return this command, as it is typed."""
    words = [next_step.program("install"), args.client]
    words += ["--as skill"] if args.what == "skill" else []
    words += ["--scope project"] if args.scope == "project" else []
    words += [f"--folder {operand(args.folder)}"] if args.folder else []
    words += ["--undo"] if args.undo else []
    words += [f"--allow {operand(folder)}" for folder in args.allow or ()]
    words += [f"--python {operand(args.python)}"] if args.python else []
    return " ".join(words)


def _after(args: argparse.Namespace, project: Path | None) -> str:
    """Return what comes next once it is written."""
    client = CLIENTS[args.client]
    if args.undo:
        return f"taken out; restart {client.title}"
    undo = f"undo: {_again(args)} --undo --yes"
    if args.what == "skill":
        return f"copied; restart {client.title}; {undo}"
    trust = f"; {client.trust}" if project and client.trust else ""
    return f"written; restart {client.title}: {client.seen}{trust}; {undo}"


def _listing() -> str:
    """Return the clients and where each keeps its configuration and skills."""
    from cudagraph_skill.setup.clients import places

    where = places()
    lines = ["client          user's configuration; of a project; skills; skills of a project"]
    for name, client in CLIENTS.items():
        paths = (client.user.format_map(where), client.project, client.skills.format_map(where), client.project_skills)
        lines.append(f"{name:<15} {'; '.join(path or '-' for path in paths)}")
    return "\n".join([*lines, f"next: {next_step.program('install')} CLIENT"])
