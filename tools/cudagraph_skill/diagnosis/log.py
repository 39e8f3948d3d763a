"""A pasted log to what it says: noise stripped, repeats dropped, exceptions in the order they were raised, stack frames.

Everything here is linear in the size of the log: fixed prefixes are taken off line by line, and no pattern can backtrack
beyond a line of at most `_MAX_LINE` characters. Standard library only.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.diagnosis.source import outputs, refuse
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINE = 2000  # longer lines are cut into pieces: a serialised log, or one that lost its newlines
_MAX_KEPT = 120_000  # characters that are looked at after repeats are dropped, from both ends of the log
_LARGE = 1 << 20  # characters from which on only both ends, and what stands around errors, are read
_SHORTEST = 8  # characters of a line that can be a message
_MARKS = ("rror", "Traceback", "captur", "Captur", "raph", "atchdog", "stream")
_ENDS, _MIDDLE, _BEFORE, _AFTER = 8000, 3000, 30, 4  # lines at each end, of the middle, and around a mark
_BINARY_SHARE = 0.05
_MAX_FRAMES = 400
_FRAME_LINES = 4  # file and function, source, marks under it (Python 3.11 and newer), of a statement that goes on

_DIGITS = re.compile(r"\d+")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;:?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LABEL = r"rank\s?\d+|default\d+|node\d+|\d+"
# What launchers, loggers and terminals put before a line: the first group, where there is one, names the process.
_PREFIX = re.compile(
    rf"""\s*(?:
      \[({_LABEL})\](?=\s|:):?                                          # [rank0]: of torchrun, [0]: of mpirun
    | \(([^()\n]{{0,60}}pid=\d+)[^)\n]{{0,80}}\)                         # (EngineCore_0 pid=71) of vLLM, Ray
    | ({_LABEL}):(?=\s)                                                 # 3: of srun --label
    | \[?\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?
    | \[\d\d:\d\d:\d\d(?:[.,]\d+)?\](?:\s-)?
    | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d\s\d\d:\d\d:\d\d(?:\s\[[\w./-]+:\d+\])?
    | E(?=\s{{2,}})                                                     # pytest
    | [|│╭╰╮╯─]+(?=\s)                                                  # a traceback in a box
    )[ \t]?""",
    re.VERBOSE,
)
_PROGRESS = re.compile(r"^.{0,200}?\[\d{1,3}:\d{1,3}(?::\d{1,3})?<?[^\]\n]{0,40}(?:it/s|s/it)[^\]\n]{0,40}\]")
_FRAME = re.compile(r'^\s*File "?([^"\n,]{1,400})"?, line (\d{1,7}), in ([\w<>.]{1,200})$')
# pytest (`a.py:4: in f`, `a.py:4: TypeError`), IPython (`File ~/a.py:4, in f(x)`) and rich (`/a.py:4 in f`).
_SHORT_FRAME = re.compile(
    r"^\s*(?:File )?([\w~./\\:-]{1,400}\.py):(\d{1,7})(?:,|:)? (?:in ([\w<>.]{1,200})|\w*(?:Error|Exception)?$)"
)
_WARNED = re.compile(r"^\s*([\w~./\\:-]{1,400}\.py):(\d{1,7}): \w*Warning: ")
_LINKS = ("during handling of the above exception", "the above exception was the direct cause")
# What torch adds to every error, whatever it was, and to every exit of a distributed program that failed.
_BOILERPLATE = (
    "CUDA kernel errors might be asynchronously reported",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING",
    "Compile with `TORCH_USE_CUDA_DSA`",
    "Device-side assertion tracking",
    "destroy_process_group() was not called before program exit",
)
# Parts of paths that are not the user's own code.
_OTHERS = ("site-packages", "dist-packages", "/lib/python", "\\lib\\", "/torch/", "torchinductor_", "<")
_SALIENT = re.compile(
    r"error|exception|traceback|warn|cuda|graph|captur|replay|nccl|assert|file \"|^#|skip|stream|memory|hang|watchdog",
    re.IGNORECASE,
)
_STARTS = frozenset("[(EDIWC|│╭╰╮╯─ 0123456789rdn")  # what a prefix can begin with


class Line(NamedTuple):
    """One line without its noise: `number` is its 1-based place in the paste, `depth` the exceptions chained before it."""

    number: int
    text: str
    depth: int


class Frame(NamedTuple):
    """A stack frame: `place` is the index of its line in the log, `own` says that the file is no installed library's."""

    path: str
    line: int
    function: str
    place: int
    depth: int
    own: bool


class Log(NamedTuple):
    """What is left of a paste: `lines` in the order of processes, `frames` in the order in which the log shows them.

    `raised` is whether there is a traceback, so that warnings are not the end of the story. `cells` is empty, or has for each
    line of what a notebook printed its cell and the line in that cell's outputs.
    """

    lines: list[Line]
    frames: list[Frame]
    raised: bool
    cells: list[tuple[int, int]]

    def where(self, place: int) -> str:
        """Return where the line of an index stands in the paste: `line 13`, or `cell 3, line 2 of its output`."""
        number = self.lines[place].number
        return "cell {}, line {} of its output".format(*self.cells[number - 1]) if self.cells else f"line {number}"

    def own_frame(self, place: int | None = None) -> Frame | None:
        """Return the user's frame nearest above line `place`; without one, nearest to the last error that was raised first."""
        first = [frame for frame in self.frames if frame.own and not frame.depth]
        above = [frame for frame in first if place is None or frame.place <= place]
        return (above or first)[-1] if first else None

    def innermost(self) -> frozenset[int]:
        """Return the indices of the lines of the last frame of each traceback, of exceptions that were raised first."""
        first = [frame for frame in self.frames if not frame.depth]
        last = [frame for frame, then in pairwise(first) if then.place - frame.place > _FRAME_LINES] + first[-1:]
        return frozenset(frame.place + line for frame in last for line in range(_FRAME_LINES))

    def script(self) -> Frame | None:
        """Return the user's frame that everything was called from."""
        return next((frame for frame in self.frames if frame.own and frame.function == "<module>"), self.own_frame())

    def warned(self) -> Frame | None:
        """Return the user's last line that a warning names, for a log without a traceback."""
        for place, line in reversed(list(enumerate(self.lines))):
            match = _WARNED.match(line.text)
            if match and _is_own(match[1]):
                return Frame(printable(match[1]), int(match[2]), "", place, line.depth, own=True)
        return None


def decoded(data: bytes, name: str = "") -> str:
    """Return a log as text: UTF-16 by its mark, else UTF-8 with other bytes replaced; `name` is that of its file, if any.

    Raises:
        SkillError: there is nothing in it, it is no text, or it is a program.
    """
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = data.decode("utf-16" if wide else "utf-8-sig", "replace")
    if not text.strip(" \t\r\n\0"):
        raise SkillError("the log is empty: give the error text, or the file that holds it")
    odd = len(_CONTROL.findall(_ESCAPE.sub("", text[:200_000]))) + text[:200_000].count("\N{REPLACEMENT CHARACTER}")
    if odd > _BINARY_SHARE * min(len(text), 200_000) + 8:
        raise SkillError("this is binary data, not a log: give the text that the program printed")
    refuse(text, name)
    return text


def read(text: str) -> Log:
    """Return the lines of a log that say something, each once, with the exception chain and the stack frames.

    The log of a notebook is what its cells printed.
    """
    notebook = outputs(text)
    text, cells = notebook or (text, [])
    kept = _limited(_unique(_by_process(_lines(text))))
    chained = list(_chained(kept))
    return Log(chained, _frames(chained), "raceback (most recent call last)" in text, cells)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Return numbered lines of bearable length, without colours and what a progress bar overwrote."""
    raw = text.split("\n")
    short = len(text) <= _LARGE and len(raw) <= 2 * _ENDS
    for place in range(len(raw)) if short else _telling(raw):
        line = _ESCAPE.sub("", raw[place]) if "\x1b" in raw[place] else raw[place]
        line = line.rstrip("\r").rpartition("\r")[2]
        pieces = line.split("\\n") if line.count("\\n") > 2 else [line]
        for piece in pieces if len(pieces) <= 2 * _ENDS else pieces[:_ENDS] + pieces[-_ENDS:]:
            for start in range(0, max(len(piece), 1), _MAX_LINE):
                yield place + 1, _CONTROL.sub(" ", piece[start : start + _MAX_LINE])


def _telling(raw: list[str]) -> list[int]:
    """Return the places of a long log's beginning, of its end, and of what stands around errors in between."""
    head, left = 0, _LARGE // 2
    while head < min(len(raw), _ENDS) and left > 0:
        left -= len(raw[head]) + 1
        head += 1
    tail, left = len(raw), _LARGE // 2
    while tail > max(head, len(raw) - _ENDS) and left > 0:
        tail -= 1
        left -= len(raw[tail]) + 1
    chosen: set[int] = set()
    long = (place for place, line in enumerate(raw) if len(line) > _SHORTEST)
    for place in long:
        if len(chosen) < _MIDDLE and head <= place < tail and any(mark in raw[place] for mark in _MARKS):
            chosen.update(range(max(head, place - _BEFORE), min(tail, place + _AFTER)))
    return [*range(head), *sorted(chosen), *range(tail, len(raw))]


def _by_process(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Return lines of one process after those of another: ranks that print at once tear each other's tracebacks apart."""
    streams: dict[str, list[tuple[int, str]]] = {}
    for number, line in lines:
        label, rest = _unlabelled(line)
        streams.setdefault(label, []).append((number, rest))
    for stream in streams.values():
        yield from stream


def _unlabelled(line: str) -> tuple[str, str]:
    """Return the process that a line's prefixes name, and the line without them."""
    label = ""
    for _ in range(5):
        match = _PREFIX.match(line) if line[:1] in _STARTS else None
        if not match:
            break
        label = label or next(filter(None, match.groups()), "")
        line = line[match.end() :]
    if "it/s" in line or "s/it" in line:
        line = _PROGRESS.sub("", line, count=1)
    return label, line


def _unique(lines: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return each line once; numbers in it do not make it another one. A blank line is dropped, a repeated frame as well."""
    seen: set[str] = set()
    kept = []
    for number, line in lines:
        form = _DIGITS.sub("0", line).strip()
        if form and form not in seen and not any(phrase in form for phrase in _BOILERPLATE):
            kept.append((number, line))
            if not form.startswith(("During handling", "The above exception", "Traceback (most recent")):
                seen.add(form)
    return kept


def _limited(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return at most `_MAX_KEPT` characters: lines that speak of errors or graphs first, the middle of the log last."""
    if sum(len(line) for _, line in lines) <= _MAX_KEPT:
        return lines
    lines = [line for line in lines if _SALIENT.search(line[1])]
    head, used = [], 0
    for line in lines:
        used += len(line[1])
        if used > _MAX_KEPT // 2:
            break
        head.append(line)
    tail, used = [], 0
    for line in reversed(lines[len(head) :]):
        used += len(line[1])
        if used > _MAX_KEPT // 2:
            break
        tail.append(line)
    return head + tail[::-1]


def _chained(lines: list[tuple[int, str]]) -> Iterator[Line]:
    """Return lines with the number of exceptions that were raised, and chained, before the one they belong to."""
    depth, linked = 0, False
    for number, text in lines:
        low = text.strip().lower()
        if low.startswith(_LINKS):
            depth, linked = depth + 1, True
            continue
        if low.startswith("traceback (most recent"):
            depth, linked = (depth, False) if linked else (0, False)
            continue
        yield Line(number, text, depth)


def _frames(lines: list[Line]) -> list[Frame]:
    frames = []
    for place, line in enumerate(lines):
        match = _FRAME.match(line.text) or _SHORT_FRAME.match(line.text)
        if not match:
            continue
        path = printable(match[1])
        frames.append(Frame(path, int(match[2]), match[3] or "", place, line.depth, _is_own(path)))
    return frames[:_MAX_FRAMES]


def _is_own(path: str) -> bool:
    """Tell whether a file is the user's, not of an installed package."""
    return not any(part in f"/{path.lower()}" for part in _OTHERS)
