"""Spell the next command the way this one was called: installed, as a module, or by a launcher."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cudagraph_skill.text import Steps, operand, quoted

if TYPE_CHECKING:
    import argparse


_NAMES = ("skill", "cudagraph-skill")  # procps has a program of the first name


def steps(args: argparse.Namespace) -> Steps:
    """Return the next commands, with the program and the options of this call."""
    own = f" --corpus {operand(str(args.corpus))}" if getattr(args, "corpus", None) else ""
    again = " ".join(map(quoted, getattr(args, "question", ())))
    if args.command == "search":
        again += f" --limit {args.limit}" if args.limit != 3 else ""
        again += f" --max-tokens {args.max_tokens}" if args.max_tokens else ""
        again += " --full" if args.full else ""
    return Steps(
        read=lambda ref: f"{program('read')} {operand(ref)}{own}",
        turn=lambda page: f"{program('search')} {again} --page {page}{own}",
        ask=lambda question: f"{program('search')} {quoted(question)}",
        explain=lambda name: f"{program('explain')} {quoted(name)}",
        check=lambda target: f"{program('check')} {operand(target)}",
        config=lambda release: f"{program('config')} FILE --for {release}",
    )


def program(command: str) -> str:
    """Spell a command the way this one was called: installed, as a module, or by a launcher."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("cudagraph_skill", "__main__.py"):
        return f"python -m cudagraph_skill {command}"
    if called.suffix == ".py" and (called.parent / "cudagraph_skill").is_dir():
        return f"python {operand(f'{called.with_name(command)}.py')}"
    if (
        called.name in _NAMES and "UV" in os.environ and "archive-v0" in called.parts
    ):  # uvx, whose environment is not on the PATH
        return f"uvx {_source()}cudagraph-skill {command}"
    if called.name in _NAMES:
        names = [name for name in dict.fromkeys((called.name, *_NAMES)) if _first_on_path(name) == str(called.with_name(name))]
        return f"{names[0] if names else quoted(sys.argv[0])} {command}"
    return f"skill {command}"


def _source() -> str:
    """Return the option of uvx that names where this package came from, as its installer noted it; "" for an index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote

    try:
        noted = distribution("cudagraph-skill").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    if not noted:
        return ""
    url = str(json.loads(noted)["url"])
    return f"--from {operand(unquote(url.removeprefix('file://')))} "


def in_help(text: str) -> str:
    """Rewrite usage and examples of a help text so that they can be typed here."""
    return re.sub(
        r"(?m)^(usage: |example: | {9})(.*\| )?skill ([a-z]+)",
        lambda match: f"{match[1]}{match[2] or ''}{program(match[3])}",
        text,
    )


def as_called(sentence: str) -> str:
    """Rewrite the commands in backticks so that they can be typed here."""
    return re.sub(r"`skill ([a-z]+)", lambda match: f"`{program(match[1])}", sentence)


def _first_on_path(name: str) -> str:
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return next((path for folder in folders if os.access(path := os.path.join(folder, name), os.X_OK)), "")  # noqa: PTH118
