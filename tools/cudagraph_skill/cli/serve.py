"""`skill serve`: run the MCP server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.cli.arguments import Parser, add_command
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill serve`."""
    new = add_command(
        commands,
        "serve",
        "run the MCP server on stdin and stdout",
        "example: claude mcp add cuda-graphs -- cudagraph-skill serve\n"
        "         claude mcp add cuda-graphs -- cudagraph-skill serve --python .venv/bin/python --allow .",
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
    new.set_defaults(run=run, json=False)


def run(args: argparse.Namespace) -> int:
    """Serve MCP on stdin and stdout until they close."""
    try:
        from cudagraph_skill_server import app
    except ModuleNotFoundError as error:
        from cudagraph_skill.setup import extras, serving

        missing = f"the server needs the package {error.name}, which {sys.executable} does not have"
        raise SkillError(f"{missing}: run `{extras.installing('mcp', serving.missing())}`", 3) from None
    app.serve(args.python, args.allow, as_text=args.text)
    return 0
