"""Start the guest in the user's interpreter, send it requests, and kill its processes; standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.capture import reports
from cudagraph_skill.capture.guest.agreement import ADDRESS
from cudagraph_skill.capture.guest.processes import descendants, signal_name
from cudagraph_skill.capture.keeper import KEEPER, NOT_STARTED
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from cudagraph_skill.capture.hub import Hub

START = 180.0  # seconds for `import torch`, which takes 2 from a warm disk and a minute from a cold one over the network
TAIL = 1 << 16  # bytes of the program's output that are kept
_LATE = 15.0  # seconds after the deadline until the guest itself is taken for hung; it needs 5 for what SIGKILL does not end
_LAST = 8.0  # seconds that the guest has to end its tree when it is closed
_LOOK = 0.05  # seconds between two looks at whether the caller wants to stop


class Ended(NamedTuple):
    """The outcome of a request: `result` or the last draft of it (None: neither), the steps, how it ended, the output's tail.

    `ended` holds `how` (done, deadline, memory, signal, exit or cancelled), `detail`, `stack` ([file, line, function],
    outermost first), `left_behind`, the number of processes that had to be killed, and `unread` reports, if any.
    """

    result: dict[str, Any] | None
    steps: list[dict[str, Any]]
    ended: dict[str, Any]
    output: str


class Guest:
    """The user's interpreter with torch imported, which answers one request after another; not for two threads at once."""

    def __init__(
        self,
        python: str,
        folder: str,
        environment: Mapping[str, str] | None = None,
        forward: Callable[[bytes], None] | None = None,
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Start `python` in `folder`; wait until it has imported torch.

        `environment` is added to that of this process. `forward` is given what the program prints, as it comes. `cancelled` is
        asked while it waits, and ends it with True.

        Raises:
            SkillError: the interpreter cannot be started, lacks something, or ended before it was ready (exit code 3); or
                it was cancelled.
        """
        # With this, asking whether CUDA is available at import does not initialise it, which would make forks useless.
        variables = {**(environment or {}), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        self._tree = _Tree([python], folder, variables, forward)
        self.ready: dict[str, Any] = {}
        try:
            self.ready = self._tree.await_ready(cancelled or (lambda: False))
        except BaseException:
            self._tree.kill()
            raise

    def ask(
        self,
        request: dict[str, Any],
        deadline: float,
        memory: int = 0,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Ended:
        """Run one request within `deadline` seconds and `memory` bytes (0: no bound).

        `on_event` is given each progress and step event, `cancelled` is asked every 0.05 s and ends the request with True.

        Raises:
            SkillError: the guest ended earlier or was closed (exit code 3).
        """
        return self._tree.ask(request, deadline, memory, on_event, cancelled)

    def close(self) -> None:
        """End the guest and all its processes; a second call does nothing."""
        self._tree.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def run_program(  # noqa: PLR0913 - one argument for each part of a command
    python: str,
    arguments: Sequence[str],
    folder: str,
    *,
    deadline: float,
    request: dict[str, Any] | None = None,
    flags: Sequence[str] = (),
    memory: int = 0,
    environment: Mapping[str, str] | None = None,
    forward: Callable[[bytes], None] | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    hub: Hub | None = None,
) -> Ended:
    """Run `python FLAGS ARGUMENTS` in `folder` once, with our watcher in the program's own process; bounds as in `Guest.ask`.

    The watcher is given `request` with `arguments` in it, such as ["train.py", "--lr", "1"] or ["-m", "train"]. A `hub` listens
    for the ranks of a request with `launch`.

    Raises:
        SkillError: the interpreter cannot be started or is too old (exit code 3).
    """
    variables = {**(environment or {}), **({ADDRESS: hub.address} if hub else {})}
    tree = _Tree([python, *flags], folder, variables, forward, mode=("program",))
    tree.hub = hub
    try:
        return tree.ask({**(request or {}), "arguments": list(arguments)}, deadline, memory, on_event, cancelled)
    finally:
        tree.close()


class _Tree:
    """A started guest with its three pipes: commands to it, reports and output from it."""

    def __init__(
        self,
        python: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        forward: Callable[[bytes], None] | None,
        mode: Sequence[str] = (),
    ) -> None:
        self.python = python[0]
        self.hub: Hub | None = None  # that listens for ranks, looked at with the pipes
        self._forward = forward
        self._number = 0
        self._unfinished = b""
        self._unread = 0  # lines that are not valid reports
        self._tail = bytearray()
        self._done = False
        theirs, self._commands = os.pipe()
        self._reports, answers = os.pipe()
        self._output, printed = os.pipe()
        held, self._host = os.pipe()
        for fd in (self._reports, self._output):
            os.set_blocking(fd, False)
        start = Path(__file__).resolve().with_name("guest") / "start.py"
        command = [*KEEPER, str(held), _whole(python[0]), *python[1:], str(start), str(theirs), str(answers), *mode]
        try:
            self._process = _start(command, folder, {**os.environ, **environment}, (theirs, answers, held), printed)
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for fd in (theirs, answers, printed, held):
                os.close(fd)

    def await_ready(self, cancelled: Callable[[], bool]) -> dict[str, Any]:
        end = time.monotonic() + START
        while time.monotonic() < end:
            events, alive = self._events()
            for event in events:
                if event["event"] == "ready":
                    return _without(event, "event")
                self._raise_if_unfit(event)
            if not alive:
                raise SkillError(self._never_ready(), 3)
            if cancelled():
                raise SkillError("the run was cancelled while torch was imported")
        raise SkillError(f"{self.python} did not import torch within {START:g} s: see that `import torch` works there", 3)

    def ask(
        self,
        request: dict[str, Any],
        deadline: float,
        memory: int,
        on_event: Callable[[dict[str, Any]], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> Ended:
        self._drain()
        self._tail.clear()
        self._unread = 0
        self._number += 1
        self._send({"id": self._number, "request": request, "deadline": deadline, "memory": memory})
        hung = time.monotonic() + deadline + _LATE
        result: dict[str, Any] | None = None
        draft: dict[str, Any] | None = None
        steps: list[dict[str, Any]] = []
        asked = False
        while True:
            events, alive = self._events()
            for event in events:
                kind = event["event"]
                if kind == "ended":
                    return self._ended(draft if result is None else result, steps, event)
                if kind == "result":
                    result = _without(event, "event")
                elif kind == "draft":
                    draft = _without(event, "event")
                elif kind == "step":
                    steps.append(_without(event, "event"))
                self._raise_if_unfit(event)
                if on_event and kind in {"progress", "step"}:
                    on_event(event)
            if not alive or time.monotonic() > hung:
                return self._ended(draft if result is None else result, steps, self._own_end(alive, deadline))
            if cancelled and not asked and cancelled():
                asked = True
                self._send({"cancel": self._number})

    def close(self) -> None:
        """End the guest by closing its commands, which makes it kill and reap what is left; by force if that takes too long."""
        if self._done:
            return
        try:
            os.close(self._commands)
            self._commands = -1
            end = time.monotonic() + _LAST
            while self._process.poll() is None and time.monotonic() < end:
                self._drain(0.02)
        finally:
            self.kill()

    def kill(self) -> None:
        """Have the keeper kill the guest and all that it left; by force if that takes too long."""
        if self._done:
            return
        self._done = True
        os.close(self._host)
        self._host = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST)
        if self._process.poll() is None:
            for pid in descendants(self._process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for fd in (self._commands, self._reports, self._output, self._host):
            if fd >= 0:
                os.close(fd)

    def _send(self, message: dict[str, Any]) -> None:
        """Write one line.

        Raises:
            SkillError: there is no one to read it.
        """
        if self._done:
            raise SkillError("the guest has ended: start another", 3)
        data = memoryview(f"{json.dumps(message)}\n".encode())
        try:
            while data:
                data = data[os.write(self._commands, data) :]
        except BrokenPipeError:
            raise SkillError(f"{self.python} ended ({self._how_it_ended()}): start it again", 3) from None

    def _events(self) -> tuple[list[dict[str, Any]], bool]:
        """Wait up to 0.05 s and return the reported events, and whether more can come; printed output is kept on the way."""
        running = self._process.poll() is None  # asked first: what it wrote before its end is read below
        poll = select.poll()
        poll.register(self._reports, select.POLLIN)
        poll.register(self._output, select.POLLIN)
        for fd in self.hub.descriptors() if self.hub else ():
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(_LOOK * 1000)}
        if self._output in ready and self._print() == b"" and self._reports not in ready:
            time.sleep(_LOOK)  # the program closed its output, which poll reports at once and for ever
        told = self.hub.look() if self.hub else []
        if self._reports not in ready:
            return told, running
        data = _available(self._reports)
        *lines, self._unfinished = (self._unfinished + (data or b"")).split(b"\n")
        if len(self._unfinished) > reports.LONGEST:
            lines, self._unfinished = [*lines, self._unfinished], b""
        events = [reports.parsed(line) for line in lines if line.strip()]
        self._unread += events.count(None)
        return [*told, *(event for event in events if event)], data != b""

    def _print(self) -> bytes | None:
        """Keep what the program printed, and hand it on; None if there was nothing, b"" if there will be nothing more."""
        data = _available(self._output)
        if data:
            self._tail += data
            del self._tail[:-TAIL]
            if self._forward:
                self._forward(data)
        return data

    def _drain(self, seconds: float = 0.0) -> None:
        """Take what was printed until now, waiting for it at most `seconds`."""
        if self._done:
            return
        select.select([self._output], [], [], seconds)
        while self._print():
            pass

    def _ended(self, result: dict[str, Any] | None, steps: list[dict[str, Any]], event: dict[str, Any]) -> Ended:
        self._drain()
        how = _without(event, "event", "id") | ({"unread": self._unread} if self._unread else {})
        return Ended(result, steps, how, self._tail.decode("utf-8", "replace"))

    def _own_end(self, alive: bool, deadline: float) -> dict[str, Any]:
        """Return the "ended" event for a guest that could not send it, because it was killed or hangs."""
        how = {"how": "deadline", "detail": f"{deadline:g} s"} if alive else {"how": "exit", "detail": self._how_it_ended()}
        self._drain()
        self.kill()
        return {"event": "ended", **how, "stack": [], "left_behind": 0}

    def _raise_if_unfit(self, event: dict[str, Any]) -> None:
        if event["event"] == "unfit":
            raise SkillError(event["said"], 3)

    def _never_ready(self) -> str:
        self._drain()
        last = (self._tail.decode("utf-8", "replace").split("\n")[-2:] or [""])[0].strip()
        how = f"{self._how_it_ended()}{', saying: ' + last if last else ''}"
        if self._process.returncode == NOT_STARTED:
            return f"{last}; name the Python that has torch with `--python`"
        return f"{self.python} ended before it was ready ({how}): name a Python 3.10 or newer that has torch with `--python`"

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(2)
            return f"exit code {code}" if code >= 0 else signal_name(-code)
        return "it closed its pipes"


def _start(
    command: list[str], folder: str, environment: dict[str, str], pipes: tuple[int, ...], printed: int
) -> subprocess.Popen[bytes]:
    """Start the interpreter in a process group of its own, so that Ctrl-C reaches only us.

    Raises:
        SkillError: that cannot be done.
    """
    if sys.platform != "linux":
        raise SkillError(f"running a capture needs Linux, and this is {sys.platform}", 3)
    if not Path(folder).is_dir():
        raise SkillError(f"{folder}: there is no such folder to run in", 3)
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            pass_fds=pipes,
            process_group=0,
        )
    except OSError as error:
        raise SkillError(f"{command[0]}: {error.strerror}; name the Python that has torch with `--python`", 3) from None


def _whole(python: str) -> str:
    """Return `python` as an absolute path; a link is kept, because it identifies a virtual environment."""
    return str(Path(python).expanduser().absolute()) if "/" in python else python


def _available(fd: int) -> bytes | None:
    """Read what is available now: None if there is nothing, b"" at the end."""
    try:
        return os.read(fd, TAIL)
    except BlockingIOError:
        return None


def _without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}
