"""Write to the terminal: messages and progress on stderr, colour where it is wanted."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from typing import TextIO


def say(sentence: str) -> None:
    """Print one message on stderr, with control characters escaped, since it may quote what a user typed."""
    if sys.stderr is None:  # print() would take stdout instead
        return
    try:
        print("\n".join(map(printable, sentence.split("\n"))), file=sys.stderr)
    except OSError:  # a full disk, or a reader that has gone: there is nobody to tell
        leave_quietly(sys.stderr)


def echo(data: bytes) -> None:
    """Pass on the output of a watched program, on stderr."""
    if sys.stderr is not None:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def colour() -> bool:
    """Return whether stdout is a terminal that shows colours."""
    return sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def leave_quietly(stream: TextIO | None) -> None:
    """Drop what is left in the buffer: it cannot be written, and Python would complain at exit."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Progress:
    """Print a progress message on stderr if a step takes longer than a second."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.say("")

    def say(self, sentence: str) -> None:
        """Announce the step that begins; "" announces none."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(1.0, say, [f"{sentence} …"]) if sentence else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
