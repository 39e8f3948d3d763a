"""`skill serve`: the server over standard input and output, or over HTTP, with what its user allowed."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.errors import SkillError

from cudagraph_skill_server import app, environment, files, http_server, jobs, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Settings(NamedTuple):
    """What the user asked for; `http` is "" for standard input and output, `memory` in bytes, 0 for three quarters."""

    python: str = ""
    allowed: Sequence[Path] = ()
    read: Sequence[Path] = ()
    as_text: bool = False
    http: str = ""
    exposed: Sequence[str] = ()
    token_file: Path | None = None
    passed: Sequence[str] = ()
    memory: int = 0


def serve(settings: Settings) -> None:
    """Answer until the client goes, or over HTTP until a signal comes.

    Raises:
        SkillError: the settings do not go together, a folder is not there, or the port cannot be had (exit code 3).
    """
    _refuse_alone(settings)
    allowed = files.readable(settings.allowed)
    roots = [*files.readable(settings.read), *allowed]
    if not settings.http:
        _scrub(settings)
        _run_stdio(settings, roots if settings.read else None)
        return
    where = http_server.address(settings.http)
    names = [http_server.exposed(name) for name in settings.exposed]
    _refuse_open(where, settings)
    with http_server.bound(where) as listening:
        token, source = tokens.chosen(settings.token_file)
        _scrub(settings)
        port = listening.getsockname()[1]
        built = app.build(settings.python, settings.allowed, as_text=settings.as_text, roots=roots, memory=_memory(settings))
        jobs.start()
        how = f"clients show the token of {source}" if token else "reading tools only, for any program of this machine"
        tokens.print_once(f"listening on {where._replace(port=port).url} ({how})")
        try:
            http_server.serve(built, listening, token, names)
        finally:
            _leave()


def _refuse_alone(settings: Settings) -> None:
    """Check options that are for HTTP.

    Raises:
        SkillError: one is given without it.
    """
    for option, given in (("--expose", settings.exposed), ("--token-file", settings.token_file)):
        if given and not settings.http:
            raise SkillError(f"{option} is for `--http`: add `--http PORT`, or leave it out")


def _refuse_open(where: http_server.Address, settings: Settings) -> None:
    """Check that no more is opened than was asked for.

    Raises:
        SkillError: others could reach the server, or run code, and the user did not say so.
    """
    has_token = settings.token_file is not None or tokens.VARIABLE in os.environ
    if not where.is_loopback() and not settings.exposed:
        raise SkillError(
            f"--http {where.host}:{where.port} lets other machines in: add `--expose NAME`, the name that they "
            "call this one by, and `--token-file FILE`, or leave the host out"
        )
    if not where.is_loopback() and not has_token:
        raise SkillError(f"other machines are let in with a token only: add `--token-file FILE`, or set {tokens.VARIABLE}")
    if settings.allowed and not has_token:
        raise SkillError(
            "over HTTP, code is run for clients that show a token only: add `--token-file FILE` (it is made if it is "
            f"not there), or set {tokens.VARIABLE}"
        )


def _scrub(settings: Settings) -> None:
    removed = environment.scrub(settings.passed)
    if removed and settings.allowed:
        tokens.print_once(f"code that is run does not get {', '.join(removed)} (`--pass NAME` gives it one)")


def _memory(settings: Settings) -> int:
    return settings.memory or environment.most_memory()


def _run_stdio(settings: Settings, roots: Sequence[str] | None) -> None:
    built = app.build(settings.python, settings.allowed, as_text=settings.as_text, roots=roots, memory=_memory(settings))
    try:
        built.run("stdio")
    finally:
        _leave()


def _leave() -> None:
    """End this process where a thread still works for a call that nobody waits for; Python would wait for it."""
    jobs.close()
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(130 if sys.exc_info()[0] is KeyboardInterrupt else 0)
