"""Serve requests: import torch once, fork for each request, check in a second fork; or run the user's own program.

The first process (a fork server) never initialises CUDA and runs no user code but imports of installed packages, so every request
starts from the same clean state without waiting for `import torch` and for the packages that it or a request before it imports
(`warmth`). The first fork imports the user's module, the second runs the check.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture.guest import torchrun, warmth
from cudagraph_skill.capture.guest.processes import (
    Commands,
    Notes,
    Reports,
    arm,
    become_reaper,
    disarm,
    end_with_parent,
    follow_forks,
    fork,
    has_ended,
    signal_name,
    stack_of,
    sweep,
    threads,
    watch,
)
from cudagraph_skill.capture.guest.readiness import readiness

if TYPE_CHECKING:
    from collections.abc import Callable

_TAKEN_OVER, _ANSWERED, _NOT_BEGUN = "taken over", "answered", "not begun"
_GO_ON = b"1"
_MAY_NOT_FORK = 75  # exit code of a server that imported what starts threads or opens the GPU
_NAMED = 3  # packages that the step of the import names


class Context(NamedTuple):
    """The context of a child: its request, where it reports and leaves notes, and its deadline in monotonic seconds."""

    message: dict[str, Any]
    reports: Reports
    notes: Notes
    end: float


class Finished(NamedTuple):
    """How a child ended: its notes, whether we stopped it, and its exit code (128 and the signal, as a shell has it)."""

    noted: dict[str, Any]
    stopped: bool
    exit_code: int


def serve(commands_fd: int, reports_fd: int) -> int:
    """Import torch, report whether this machine can run the check, then answer one request after another until the host ends."""
    commands, reports = Commands(commands_fd), Reports(reports_fd)
    become_reaper()
    end_with_parent()
    follow_forks()
    _show_lines_at_once()
    event = readiness()
    with contextlib.suppress(OSError):  # the host ended meanwhile
        reports.send(event)
    if event["event"] == "unfit":
        return 0
    warmth.settle()
    _answer(commands, reports, set())
    return 0


def _answer(commands: Commands, reports: Reports, refused: set[str], begun: Context | None = None) -> None:
    """Answer one request after another until the host ends, or until a fork that has more packages imported does so instead.

    `refused` are the packages that no server may import, `begun` the request for whose file this one was forked.
    """
    while context := begun or _next(commands, reports):
        first = [] if begun else warmth.first(context.message["request"], refused)
        begun, answer = None, _import_first(first, context, commands, refused) if first else _NOT_BEGUN
        if answer == _TAKEN_OVER:
            return
        refused |= set(context.notes.read().get("refused", ()))
        imported, changes = _answered(context, commands) if answer == _NOT_BEGUN else ([], {})
        imported = [name for name in imported if name not in refused]
        if imported and _handed_over(imported, changes, commands, reports, refused):
            return
        refused |= set(imported)
        context.notes.close()


def _next(commands: Commands, reports: Reports) -> Context | None:
    message = commands.request()
    return _context(message, reports) if message else None


def _answered(context: Context, commands: Commands) -> tuple[list[str], dict[str, Any]]:
    """Answer a request in a fork; return the installed packages that it imported, and what it changed before that."""
    child = fork()
    if not child:
        os.close(commands.fd)
        _run_request(context)
    noted = finish(child, context, commands).noted
    return noted.get("installed", []), noted.get("changes", {})


def _import_first(first: list[warmth.Import], context: Context, commands: Commands, refused: set[str]) -> str:
    """Fork a server that runs the imports with which a request's file begins before it answers that request, and all later ones.

    Return _TAKEN_OVER at its end. One that may not be forked with them imported answers this request only (_ANSWERED); one in which
    an import fails ends (_NOT_BEGUN), so that the request meets that error in a fresh process. The note `refused` names the packages.
    """
    ours, theirs = socket.socketpair()
    child = fork()
    if not child:
        ours.close()
        _begin(first, context, commands, theirs)
        _answer(commands, context.reports, refused, context)
        os._exit(0)
    theirs.close()
    why = detail = ""
    taken = False
    with ours:
        ours.setblocking(False)
        try:
            why, detail = watch(child, context.message, context.end, commands, lambda: _received(ours))
            taken = not why and not has_ended(child)
            if taken:
                with contextlib.suppress(ConnectionError):  # it was killed meanwhile
                    ours.send(_GO_ON)
                os.waitpid(child, 0)
        finally:
            killed, statuses = sweep()
    if taken:
        return _TAKEN_OVER
    if not why and os.waitstatus_to_exitcode(statuses.get(child, 0)) == _MAY_NOT_FORK:
        return _NOT_BEGUN
    _finished(child, context, (why, detail), killed, statuses)
    return _ANSWERED


def _received(link: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError, ConnectionError):
        return bool(link.recv(1))
    return False


def _begin(first: list[warmth.Import], context: Context, commands: Commands, parent: socket.socket) -> None:
    """Run the imports of a request's file; return where this process may take the place of the one that forked it."""
    context.reports.own()
    _write_no_core()
    owner, imports, start = os.getpid(), warmth.Imports(), time.monotonic()
    unsafe = ""
    with warmth.one_thread():
        for each in first:
            arm(context.notes, context.end)
            if not each.run():
                context.notes.add(refused=list(each.packages))
                os._exit(_MAY_NOT_FORK)
            disarm()  # its clock is a thread
            unsafe = _has_opened_gpu() or _has_threads()
            if unsafe:
                context.notes.add(refused=list(each.packages))
                break
    if os.getpid() != owner:  # a package forked when it was imported, and this is the fork
        os._exit(0)
    folder = os.path.dirname(context.message["request"]["file"])
    if any(warmth.has(folder, name) for name in imports.outermost()):  # there the program gets that module instead
        context.notes.add(refused=[name for each in first for name in each.packages])
        os._exit(_MAY_NOT_FORK)
    _report_import(context, imports.installed(), start)
    if unsafe:
        parent.close()
        os.close(commands.fd)
        _run_request(context)
    warmth.settle()
    become_reaper()
    end_with_parent()
    commands.inherited()
    parent.send(_GO_ON)
    if not parent.recv(1):  # it ended; else only this process reads the commands from here on
        os._exit(0)
    parent.close()


def _handed_over(names: list[str], changes: dict[str, Any], commands: Commands, reports: Reports, refused: set[str]) -> bool:
    """Fork a server that imports modules first; return True at its end, False if it may not be forked with them imported."""
    child = fork()
    if not child:
        become_reaper()
        end_with_parent()
        reports.own()
        commands.inherited()
        if warmth.warm(names, changes) and not (_has_opened_gpu() or _has_threads()):
            _answer(commands, reports, refused)
            os._exit(0)
        os._exit(_MAY_NOT_FORK)
    _, status = os.waitpid(child, 0)
    sweep()
    return not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == _MAY_NOT_FORK)


def run_program(commands_fd: int, reports_fd: int) -> int:
    """Run the user's own program once, in a child that has not imported torch; in the child, the exit code is the program's.

    A request with `launch` starts torchrun in that child, which starts the program once for each rank.
    """
    commands, reports = Commands(commands_fd), Reports(reports_fd, forks_end=False)
    become_reaper()
    end_with_parent()
    follow_forks()
    message = commands.request()
    if message is None:
        return 0
    context = _context(message, reports)
    child = fork()
    if not child:
        os.close(commands.fd)
        return program(context, torchrun.run if "launch" in message["request"] else None)
    finish(child, context, commands)
    return 0


def _context(message: dict[str, Any], reports: Reports) -> Context:
    return Context(message, reports, Notes(), time.monotonic() + message["deadline"])


def finish(child: int, context: Context, commands: Commands | None) -> Finished:
    """Wait for the child within its bounds, leave nothing of it, and report how it ended."""
    try:
        why, detail = watch(child, context.message, context.end, commands)
    finally:
        killed, statuses = sweep()
    return _finished(child, context, (why, detail), killed, statuses)


def _finished(child: int, context: Context, stopped: tuple[str, str], killed: set[int], statuses: dict[int, int]) -> Finished:
    """Report how a child ended of which nothing is left."""
    why, detail = stopped
    noted = context.notes.read()
    status = noted.get("status", statuses.get(child, 0))
    how = {"how": why, "detail": detail} if why else _how(noted, status)
    stack = [] if why == "cancelled" else noted.get("stack") or context.notes.stack()
    left = len(killed - {child, noted.get("checking")})
    with contextlib.suppress(OSError):  # the host ended: the next look for a request ends this process too
        context.reports.send({"event": "ended", "id": context.message["id"], **how, "stack": stack, "left_behind": left})
    code = os.waitstatus_to_exitcode(status)
    return Finished(noted, bool(why), code if code >= 0 else 128 - code)


def _how(noted: dict[str, Any], status: int) -> dict[str, str]:
    """Return how a child ended that we did not kill, from its notes and its wait status."""
    if os.WIFSIGNALED(status):
        return {"how": "signal", "detail": signal_name(os.WTERMSIG(status))}
    if "how" in noted:
        return {"how": noted["how"], "detail": noted["detail"]}
    return {"how": "exit", "detail": str(os.WEXITSTATUS(status))}


def _run_request(context: Context) -> None:
    """Import the user's module and run the check in a fork, or here where forking is unsafe; never returns."""
    context.reports.own()
    _write_no_core()
    arm(context.notes, context.end)
    _guarded(context.notes, lambda: _check(context))
    os._exit(0)


def _write_no_core() -> None:
    """Leave no core dumps in the user's folder."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _check(context: Context) -> None:
    owner = os.getpid()
    request = context.message["request"]
    runner = importlib.import_module(request.get("runner", "cudagraph_skill.capture.guest.verdict"))
    imports, start = warmth.Imports(), time.monotonic()
    prepared = runner.prepare(request)
    if os.getpid() != owner:  # the user's module forked when it was imported, and this is the fork
        os._exit(0)
    disarm()
    imported = imports.installed()
    _report_import(context, imported, start)
    opened = _has_opened_gpu()
    context.notes.add(installed=[] if opened else imported, changes=imports.changes())
    unsafe = opened or _has_threads()
    if unsafe:
        arm(context.notes, context.end)
        context.reports.step("fork", "skipped", unsafe)
        runner.run(request, prepared, context.reports)
        return
    _check_in_fork(context, lambda: runner.run(request, prepared, context.reports))


def _report_import(context: Context, imported: list[str], start: float) -> None:
    if imported:
        packages = list(dict.fromkeys(name.partition(".")[0] for name in imported))
        said = f"{len(imported)} modules of {', '.join(packages[:_NAMED])}{', …' if len(packages) > _NAMED else ''}"
        context.reports.step("import", "ok", said, time.monotonic() - start)


def _check_in_fork(context: Context, run: Callable[[], None]) -> None:
    """Run the check in a fork and note its wait status; never returns."""
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the user's own would take the status away
    child = fork()
    if not child:
        signal.signal(signal.SIGCHLD, handler)
        context.reports.own()
        arm(context.notes, context.end)
        _guarded(context.notes, run)
        os._exit(0)
    context.notes.add(checking=child)
    context.notes.add(status=os.waitpid(child, 0)[1])
    os._exit(0)


def program(context: Context, body: Callable[[dict[str, Any], Reports], None] | None = None) -> int:
    """Run the user's program, or `body` with the request and the reports.

    The interpreter then ends as it would without us, with exit handlers and waiting for threads.
    """
    context.reports.own()
    _show_lines_at_once()
    arm(context.notes, context.end)

    def run() -> None:
        request = context.message["request"]
        name = request.get("runner", "cudagraph_skill.capture.guest.live")
        (body or importlib.import_module(name).run)(request, context.reports)

    return _guarded(context.notes, run)


def _guarded(notes: Notes, body: Callable[[], None]) -> int:
    """Run `body` and note how it ended, whatever it raises; the exit code that this means."""
    owner = os.getpid()
    ended: dict[str, Any] = {"how": "done", "detail": ""}
    code = 0
    try:
        body()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        ended = {"how": "exit", "detail": str(error.code or 0), "stack": stack_of(error)}
    except BaseException as error:  # noqa: BLE001 - whatever user code raises, the host must hear how it ended
        code = 1
        ended = {"how": "exit", "detail": f"{type(error).__name__}: {error}", "stack": stack_of(error)}
        traceback.print_exc()
    if os.getpid() == owner:  # else it is a fork that user code made, and that came here by returning
        notes.add(**ended)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # user code may have put anything there
            stream.flush()
    return code


def _show_lines_at_once() -> None:
    """Write each line that is printed, so that the last ones before a kill are known."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _has_opened_gpu() -> str:
    """Return why this process must not fork the check, as half a sentence: CUDA does not work in a fork after that; "" if it may."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "importing the module initialised CUDA, so the check runs in the process that imported it"
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith("/dev/nvidia-uvm"):
                return "importing the module opened the GPU, so the check runs in the process that imported it"
    return ""


def _has_threads() -> str:
    """Return why this process must not fork the check: a fork has none of its threads, and would wait for OpenMP's without end."""
    for _ in range(20):  # a thread that was joined may take a moment to vanish
        if threads() == 1:
            return ""
        time.sleep(0.002)
    names = ", ".join(thread.name for thread in threading.enumerate()[1:]) or "of a C library, such as OpenMP's"
    return f"importing the module started threads ({names}), so the check runs in the process that imported it"
