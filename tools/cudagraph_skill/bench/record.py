"""A result of `skill bench` as values, and as JSON that is kept and shown again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cudagraph_skill.bench.ways import BY_NAME, WORKLOAD
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LARGEST = 16 << 20  # bytes of a file
_NUMBER = (int, float)


@dataclass(frozen=True)
class Timed:
    """One process that was never profiled: seconds of a step, of its submission, of the set-up; bytes.

    After ten steps from one start, `loss` is that of the last, and `moved` how far the model is from the start (0: not known).
    """

    wall: Sequence[float]
    submit: Sequence[float]
    reserved: int
    allocated: int
    set_up: float
    loss: float
    beside: str = ""
    moved: float = 0.0


@dataclass(frozen=True)
class Profiled:
    """One profiled process: Self CPU time of all `steps`; of one step, from another profile, GPU busy time and operations."""

    self_cpu: float
    busy: float
    operations: int
    steps: int
    beside: str = ""


@dataclass(frozen=True)
class Row:
    """One way of a workload, with a value for each round; or `why` it has none."""

    way: str
    timed: Sequence[Timed] = ()
    profiled: Sequence[Profiled] = ()
    why: str = ""

    @property
    def beside(self) -> str:
        """Return what ran beside one of its processes, as a sentence; "" for nothing that was seen."""
        said = [*(part.beside for part in self.timed), *(part.beside for part in self.profiled)]
        return next(filter(None, said), "")


@dataclass(frozen=True)
class Result:
    """A workload with its rows, in the order of the ways."""

    workload: str
    rows: Sequence[Row]

    def row(self, way: str) -> Row | None:
        """Return the row of a way, if it has both times and profiles."""
        return next((row for row in self.rows if row.way == way and row.timed and row.profiled and not row.why), None)


@dataclass(frozen=True)
class Bench:
    """What was measured, where and how."""

    machine: dict[str, str]
    date: str
    command: str
    rounds: int
    seconds: float
    beside: str
    results: Sequence[Result]


def data(bench: Bench) -> dict[str, Any]:
    """Return a result as JSON data."""
    return {"bench": 1, **asdict(bench)}


def read(path: Path) -> Bench:
    """Return a kept result.

    Raises:
        SkillError: the file cannot be read, or is none.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise SkillError(f"{path}: too large for a result of `skill bench`; name what its --json printed")
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SkillError(f"{path}: {error.strerror}; name a file with what `skill bench --json` printed") from None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or given.get("bench") != 1:
        raise SkillError(f"{path} is no result: name a file with what `skill bench --json` printed")
    try:
        return _bench(given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SkillError(f"{path} is a result in which something is not as it was written: {_shown(error)}") from None


def _shown(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]


def _bench(given: dict[str, Any]) -> Bench:
    machine = {name: str(value) for name, value in given["machine"].items()}
    results = [_result(each) for each in given["results"]]
    if not results:
        raise ValueError("it has no workload")
    head = (str(given["date"]), str(given["command"]), int(given["rounds"]), float(given["seconds"]), str(given["beside"]))
    return Bench(machine, *head, results)


def _result(given: dict[str, Any]) -> Result:
    if given["workload"] not in WORKLOAD:
        raise ValueError(f"there is no workload {given['workload']!r:.60}")
    return Result(given["workload"], [_row(each) for each in given["rows"]])


def _row(given: dict[str, Any]) -> Row:
    if given["way"] not in BY_NAME:
        raise ValueError(f"there is no way {given['way']!r:.60}")
    return Row(given["way"], [*map(timed, given["timed"])], [*map(profiled, given["profiled"])], str(given["why"]))


def timed(given: dict[str, Any]) -> Timed:
    """Return the times of one process.

    Raises:
        KeyError: one is missing.
        ValueError: one is no number.
    """
    rest = (int(given["reserved"]), int(given["allocated"]), _number(given["set_up"]), float(given["loss"]))
    return Timed(
        _numbers(given["wall"]), _numbers(given["submit"]), *rest, str(given["beside"]), float(given.get("moved", 0.0))
    )


def profiled(given: dict[str, Any]) -> Profiled:
    """Return the profile of one process; raises as `timed`."""
    return Profiled(
        _number(given["self_cpu"]), _number(given["busy"]), int(given["operations"]), int(given["steps"]), str(given["beside"])
    )


def _numbers(given: Any) -> list[float]:
    if not isinstance(given, list) or not given:
        raise ValueError("a list of times is empty")
    return [_number(value) for value in given]


def _number(given: Any) -> float:
    if not isinstance(given, _NUMBER) or isinstance(given, bool) or not 0 <= given < 1e9:
        raise ValueError(f"{given!r:.60} is no time")
    return float(given)
