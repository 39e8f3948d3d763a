"""`skill serve`: run the MCP server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli.arguments import Parser, add_command, positive
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill serve`."""
    new = add_command(
        commands,
        "serve",
        "run the MCP server on stdin and stdout, or over HTTP",
        "example: claude mcp add cuda-graphs -- cudagraph-skill serve\n"
        "         claude mcp add cuda-graphs -- cudagraph-skill serve --python .venv/bin/python --allow .\n"
        "         skill serve --http 8765 --allow . --token-file token",
    )
    new.add_argument(
        "--allow",
        action="append",
        type=Path,
        metavar="FOLDER",
        help="offer the tools run_check and run_bench, which run on the GPU: code of this folder, and workloads",
    )
    new.add_argument("--python", metavar="PATH", help="the interpreter with torch (default: that of the active environment)")
    new.add_argument(
        "--text", action="store_true", help="answer in text alone, for a client that hides structured content from its model"
    )
    new.add_argument(
        "--read",
        action="append",
        type=Path,
        metavar="FOLDER",
        help="read files of this folder, and of those of --allow, only (default: any file of yours; over HTTP none)",
    )
    new.add_argument(
        "--pass",
        dest="passed",
        action="append",
        metavar="NAME",
        help="give code that is run this variable, such as HF_TOKEN; others that look like secrets are taken out",
    )
    new.add_argument(
        "--memory", type=positive, metavar="GB", help="stop a run that needs more host memory (default: 3/4 of the machine's)"
    )
    new.add_argument(
        "--http", metavar="[HOST:]PORT", help="serve streamable HTTP at http://HOST:PORT/mcp (default host: 127.0.0.1)"
    )
    new.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="with --http: clients must show the token in this file, which is made if it is not there",
    )
    new.add_argument(
        "--expose",
        action="append",
        metavar="NAME",
        help="with --http: other machines may call this one by NAME; needs a token",
    )
    new.set_defaults(run=run, json=False)


def run(args: argparse.Namespace) -> int:
    """Serve MCP on stdin and stdout until they close, or over HTTP until a signal."""
    try:
        from cudagraph_skill_server import serving
    except ModuleNotFoundError as error:
        from cudagraph_skill.setup import extras
        from cudagraph_skill.setup.serving import missing as packages

        missing = f"the server needs the package {error.name}, which {sys.executable} does not have"
        raise SkillError(f"{missing}: run `{extras.installing(packages())}`", 3) from None
    from cudagraph_skill.capture.interpreter import interpreter

    settings = serving.Settings(
        python=interpreter(args.python) if args.python else "",
        allowed=args.allow or (),
        read=args.read or (),
        as_text=args.text,
        http=args.http or "",
        exposed=args.expose or (),
        token_file=args.token_file,
        passed=args.passed or (),
        memory=int((args.memory or 0) * (1 << 30)),
    )
    serving.serve(settings)
    return 0
