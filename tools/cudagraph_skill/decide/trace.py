"""Read a trace by what it holds: a Chrome trace, packed or not, or an SQLite export."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from cudagraph_skill.decide import chrome, nsys
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import shortened

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.decide.timeline import Timeline

LARGEST = 1 << 30  # bytes of a trace, unpacked
_UNKNOWN = 0.5  # of the work
_GZIP, _SQLITE = b"\x1f\x8b", b"SQLite format 3\x00"


def read(path: Path) -> Timeline:
    """Read a trace by what it holds, whatever its name.

    Raises:
        SkillError: it cannot be read, is no trace, or has nothing of a GPU.
    """
    try:
        if path.is_dir():
            raise SkillError(f"skill decide: {path} is a folder: name one trace in it")
        if path.exists() and not path.is_file():
            raise SkillError(f"skill decide: {path} is no regular file: write what it gives to one, and name that")
        with path.open("rb") as file:
            first = file.read(len(_SQLITE))
        if first == _SQLITE:
            return _with_work(nsys.timeline(path), path)
        text = _unpacked(path) if first[:2] == _GZIP else _plain(path)
        return _with_work(chrome.timeline(text, path), path)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise SkillError(f"skill decide: {shortened(str(path))} cannot be read: {why}") from None
    except MemoryError:
        raise SkillError(f"skill decide: {path} needs more memory than there is: profile fewer steps") from None


def _unpacked(path: Path) -> bytes:
    with gzip.open(path) as file:
        return _bounded(file.read(LARGEST + 1), path)


def _plain(path: Path) -> bytes:
    with path.open("rb") as file:
        return _bounded(file.read(LARGEST + 1), path)


def _bounded(text: bytes, path: Path) -> bytes:
    if len(text) > LARGEST:
        raise SkillError(
            f"skill decide: {path} has more than {LARGEST >> 20} MiB unpacked: profile fewer steps, such as "
            "schedule(wait=5, warmup=3, active=5)"
        )
    return text


def _with_work(timeline: Timeline, path: Path) -> Timeline:
    if not timeline.work:
        raise SkillError(
            f"skill decide: {path} has no kernel of an NVIDIA GPU: profile with activities=[ProfilerActivity.CPU, "
            "ProfilerActivity.CUDA], or nsys profile --trace=cuda,nvtx"
        )
    if not any(work.end > work.start for work in timeline.work):
        raise SkillError(f"skill decide: the kernels in {path} take no time: it is no trace of a run")
    if sum(work.launched is None for work in timeline.work) > _UNKNOWN * len(timeline.work):
        raise SkillError(
            f"skill decide: {path} does not tell which calls of the CPU launched its kernels, so what keeps the GPU waiting "
            "cannot be seen: profile with ProfilerActivity.CPU as well as CUDA"
        )
    return timeline
