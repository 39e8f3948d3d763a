"""Read an SQLite export of Nsight Systems (`nsys export --type sqlite`, or `nsys profile --export=sqlite`).

Tables and columns are those of its documentation, "SQLite Schema Reference". A table is there only if it has rows, and launches
are numbered in each process anew.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.decide.timeline import Call, Range, Timeline, Work, named
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_KERNELS, _CALLS, _RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"  # with --cuda-graph-trace=graph, in place of their kernels
_WORK = {
    _KERNELS: "kernel",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memset",
    _GRAPHS: "kernel",
}
_GPUS = "TARGET_INFO_GPU"
_COPIES, _MEMORY = "ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND"  # what the numbers of copyKind, srcKind and dstKind stand for
_DIRECTIONS = {"HTOD": "HtoD", "DTOH": "DtoH", "DTOD": "DtoD"}
_PUSHED, _STARTED = 59, 60  # eventType of ranges that have an end
_NANOSECOND = 1e-9
_PROCESS = 24  # bits of globalTid and globalPid below those of the process
_MOST = 4_000_000  # rows of a table


class _Row(NamedTuple):
    table: str
    start: int
    end: int
    process: int
    device: int
    correlation: int
    name: str


def timeline(path: Path) -> Timeline:
    """Return the timeline of the GPU that worked longest, and of its process.

    Raises:
        SkillError: it is not an export, or too large.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return _Export(database, path).timeline()
    except (sqlite3.Error, TypeError) as error:  # the latter where a number is missing
        raise SkillError(f"skill decide: {path} is SQLite, but not what `nsys export --type sqlite` writes: {error}") from None


class _Export:
    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path, self._unread = database, path, 0
        self._tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "StringIds" not in self._tables:
            raise sqlite3.OperationalError("there is no table StringIds")
        self._names = {number: named(str(text)) for number, text in database.execute("SELECT id, value FROM StringIds")}
        self._copies, self._memory = (self._enumerated(table) for table in (_COPIES, _MEMORY))

    def timeline(self) -> Timeline:
        rows = [row for table in _WORK for row in self._work(table)]
        times: Counter[tuple[int, int]] = Counter()
        for row in rows:
            times[row.process, row.device] += row.end - row.start
        process, device = max(times, key=lambda key: times[key], default=(0, 0))
        calls = [row for row in self._calls() if row.process == process]
        launches = {row.correlation: row for row in calls if row.correlation is not None}
        return Timeline(
            "Nsight Systems",
            self._gpu(device),
            [
                _made(row, launches.get(row.correlation))
                for row in sorted(rows, key=lambda row: row.start)
                if (row.process, row.device) == (process, device)
            ],
            [Call(row.name, row.start * _NANOSECOND, row.end * _NANOSECOND, "") for row in calls],
            [range_ for owner, range_ in self._ranges() if owner == process],
            [(row.start * _NANOSECOND, row.end * _NANOSECOND) for row in calls],
            len(times),
            self._unread,
        )

    def _work(self, table: str) -> Iterator[_Row]:
        column = {_KERNELS: self._column(table, "demangledName", "shortName"), "CUPTI_ACTIVITY_KIND_MEMCPY": "copyKind"}.get(
            table
        )
        pageable = {"srcKind", "dstKind"} <= self._columns(table)
        wanted = ["start", "end", self._column(table, "globalPid"), "deviceId", "correlationId", column or ""]
        wanted += ["srcKind", "dstKind"] if pageable else ["", ""]
        for start, end, process, device, correlation, name, source, target in self._rows(table, wanted):
            text = self._names.get(name, "") if table == _KERNELS else self._copy(name, source, target) if column else ""
            if not isinstance(start, int) or not isinstance(end, int):
                raise TypeError(f"{table} has times that are no whole numbers")
            if end < start:
                self._unread += 1
            elif end > start:
                yield _Row(table, start, end, (process or 0) >> _PROCESS, device or 0, correlation, text or _WORK[table])

    def _calls(self) -> Iterator[_Row]:
        wanted = ["start", "end", "globalTid", "nameId", "correlationId"]
        for start, end, thread, name, correlation in sorted(self._rows(_CALLS, wanted)):
            yield _Row(_CALLS, start, end, (thread or 0) >> _PROCESS, 0, correlation, self._names.get(name, ""))

    def _ranges(self) -> Iterator[tuple[int, Range]]:
        wanted = ["start", "end", "globalTid", "text", self._column(_RANGES, "textId"), "eventType"]
        for start, end, thread, own, registered, kind in self._rows(_RANGES, wanted):
            if end is not None and kind in (_PUSHED, _STARTED):
                name = named(str(own or self._names.get(registered, "")))
                yield (thread or 0) >> _PROCESS, Range(name, start * _NANOSECOND, end * _NANOSECOND)

    def _rows(self, table: str, columns: list[str]) -> Iterator[tuple[Any, ...]]:
        """Yield these columns of each row; NULL for a column without a name, nothing if the table is not there."""
        if table not in self._tables:
            return
        (count,) = self._database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()  # noqa: S608 - names of our own
        if count > _MOST:
            raise SkillError(
                f"skill decide: {self._path} has {count:,} rows in {table}: profile fewer steps, such as nsys profile "
                "--delay 30 --duration 5"
            )
        yield from self._database.execute(f"SELECT {', '.join(column or 'NULL' for column in columns)} FROM {table}")  # noqa: S608

    def _columns(self, table: str) -> set[str]:
        return {row[1] for row in self._database.execute(f"PRAGMA table_info({table})")}

    def _column(self, table: str, *names: str) -> str:
        """Return the first of these columns that a table has; "" if it has none."""
        there = self._columns(table)
        return next((name for name in names if name in there), "")

    def _enumerated(self, table: str) -> dict[int, str]:
        column = self._column(table, "name", "label")
        rows = self._database.execute(f"SELECT id, {column} FROM {table}") if column else ()  # noqa: S608
        return {number: str(text).upper() for number, text in rows}

    def _copy(self, kind: int, *memory: int) -> str:
        """Return the name of a copy in the words of torch's profiler."""
        direction = next((short for word, short in _DIRECTIONS.items() if word in self._copies.get(kind, "")), "")
        pageable = any("PAGEABLE" in self._memory.get(end, "") for end in memory)
        return f"Memcpy {direction}{' (Pageable)' * pageable}".strip()

    def _gpu(self, device: int) -> str:
        if not {"id", "name"} <= self._columns(_GPUS):
            return ""
        names = dict(self._database.execute(f"SELECT id, name FROM {_GPUS}"))  # noqa: S608
        return named(str(names.get(device, "")))


def _made(row: _Row, launch: _Row | None) -> Work:
    in_graph = row.table == _GRAPHS or (launch is not None and "GraphLaunch" in launch.name)
    launched = launch.start * _NANOSECOND if launch is not None else None
    return Work(row.name, _WORK[row.table], row.start * _NANOSECOND, row.end * _NANOSECOND, launched, in_graph)
