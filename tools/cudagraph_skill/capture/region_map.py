"""What a map says: each region of a call with its share, whether it captures, and what graphs would bring.

A replay is predicted to take the time that the GPU works, and the prices of its nodes and of a replay, measured on the same GPU
(guest/calibration.py), else those of references/profiling.md: 0.35 us for each node and 10 us (fitted on an H200). A call of
which parts are graphs takes that, or what its CPU still has to do, if that is longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cudagraph_skill.check.findings import Finding

NODE, LAUNCH, _NODE_ON_CPU = 0.35e-6, 10e-6, 0.33e-6  # seconds
_BAD = ("capture_error", "silent_wrong", "not_repeatable", "error_in_eager")
_UNKNOWN = ("", "lacking", "misuse")
_MANY, _SMALL, _SMALL_INSIDE = 60, 0.01, 0.05  # regions, of which smaller shares are left out; of those inside a graph


class Region(NamedTuple):
    """One part of a call; `launches`, `gpu` and `cpu` (seconds) are those of a call, with what is inside.

    `verdict` is "" where it was not tried alone; `like` is the number of an equal part that was checked in its place, or -1.
    `finding` is the first line that fails or goes wrong.
    """

    number: int
    inside: int
    kind: str
    name: str
    class_name: str
    calls: float
    launches: float
    gpu: float
    cpu: float
    verdict: str
    said: str
    like: int
    finding: Finding | None


@dataclass(frozen=True)
class RegionMap:
    """The regions of a call, the whole first, and its seconds: `wall`, of the CPU until it returns, that the GPU works.

    `node` are the seconds that a graph adds for each node, `replay` for each replay.
    """

    wall: float
    cpu: float
    busy: float
    launches: float
    regions: Sequence[Region]
    node: float = NODE
    replay: float = LAUNCH

    @property
    def whole(self) -> Region:
        """Return the call itself."""
        return self.regions[0]

    @cached_property
    def by_number(self) -> Mapping[int, Region]:
        """Return the regions by their numbers."""
        return {region.number: region for region in self.regions}

    def around(self, region: Region) -> Iterator[Region]:
        """Yield the regions that a region is inside of, innermost first."""
        while region.inside in self.by_number:
            region = self.by_number[region.inside]
            yield region

    def inside_graph(self, region: Region) -> bool:
        """Return whether a region lies within another that captures."""
        return any(outer.verdict == "safe" for outer in self.around(region))

    def graphs(self) -> list[Region]:
        """Return the outermost regions that capture."""
        return [region for region in self.regions if region.verdict == "safe" and not self.inside_graph(region)]

    def to_fix(self) -> list[Region]:
        """Return the innermost regions that do not capture, equal ones once, by the CPU's time that each alone holds up."""
        first = [region for region in self._failing if region.like < 0]
        return sorted(first, key=lambda region: -self.held_up(region).cpu)

    @cached_property
    def _failing(self) -> list[Region]:
        """Return the innermost regions that do not capture."""
        failing = [region for region in self.regions if region.verdict in _BAD]
        outer = {region.inside for region in failing}
        return [region for region in failing if region.number not in outer]

    def equals(self, region: Region) -> list[Region]:
        """Return the regions that a region was checked in place of."""
        return [other for other in self.regions if other.like == region.number]

    def held_up(self, region: Region) -> Region:
        """Return the outermost region in which a region and its equals are all that was seen to fail."""
        same = {region.number, *(other.number for other in self.equals(region))}
        others = {outer.number for other in self._failing if other.number not in same for outer in self.around(other)}
        held = region
        for outer in self.around(region):
            if outer.number in others:
                break
            held = outer
        return held

    def not_tried(self) -> list[Region]:
        """Return the outermost regions of which nothing is known: not checked, and not within a graph."""
        unknown = {
            region.number
            for region in self.regions
            if region.verdict in _UNKNOWN and region.kind != "backward" and not self.inside_graph(region)
        }
        return [region for region in self.regions if region.number in unknown and region.inside not in unknown]

    def as_graph(self) -> float:
        """Predict the seconds of a call that is one graph."""
        return min(self.wall, self.busy + self.node * self.launches + self.replay)

    def with_graphs(self, graphs: Sequence[Region]) -> float:
        """Predict the seconds of a call of which some regions are graphs.

        A graph of a module holds its backward pass, too: of that time, as large a part as its forward launches are of all.
        """
        if any(region.number == self.whole.number for region in graphs):
            return self.as_graph()
        return min(self.wall, max(self.busy + self.node * self.launches, self._host(graphs)))

    def with_graphs_apart(self, graphs: Sequence[Region]) -> float:
        """Predict the same seconds for a call that waits for the GPU, so that the host and the GPU work in turns."""
        return min(self.wall, self._host(graphs) + self.busy)

    def _host(self, graphs: Sequence[Region]) -> float:
        """Predict for how long the host works in a call of which some regions are graphs."""
        backward = sum(region.cpu for region in self.regions if region.kind == "backward")
        forward = sum(
            region.launches for region in self.regions if region.inside == self.whole.number and region.kind == "module"
        )
        saved = 0.0
        for region in graphs:
            share = region.launches / forward if forward and region.kind == "module" else 0.0
            saved += region.cpu + share * backward - LAUNCH * region.calls - _NODE_ON_CPU * region.launches
        return self.wall - max(saved, 0.0)


def of_result(given: Mapping[str, Any], findings: Mapping[int, Finding | None]) -> RegionMap:
    """Return the map of a guest's result; `findings` has the first finding of each region by its number."""
    wall, cpu, busy, launches = (float(given[name]) for name in ("wall", "cpu", "busy", "launches"))
    regions = [_region(row, findings.get(row["number"])) for row in given["regions"]]
    prices = [float(given[name]) for name in _PRICES] if given["replay"] else [NODE, LAUNCH]
    return RegionMap(wall, cpu, busy, launches, _with_parts_of_equals(regions), *prices)


def _region(row: Mapping[str, Any], finding: Finding | None) -> Region:
    named = {"class_name" if name == "class" else name: row[name] for name in _ROW if name != "causes"}
    return Region(**named, finding=finding)


def _with_parts_of_equals(regions: list[Region]) -> list[Region]:
    """Give the parts of a region that was not checked itself the verdicts of the parts of its equal."""
    by_number = {region.number: region for region in regions}
    inner: dict[int, dict[tuple[str, str], int]] = {}
    for region in regions:
        if region.inside in by_number:
            name = region.name.removeprefix(by_number[region.inside].name)
            inner.setdefault(region.inside, {})[region.kind, name] = region.number
    for number in [region.number for region in regions]:  # outer ones first
        for place, part in inner.get(number, {}).items():
            twin = by_number.get(inner.get(by_number[number].like, {}).get(place, -1))
            if twin is not None and not by_number[part].verdict and twin.verdict:
                like = twin.like if twin.like >= 0 else twin.number
                by_number[part] = by_number[part]._replace(verdict=twin.verdict, like=like)
    return [by_number[region.number] for region in regions]


def is_map(given: Any) -> bool:
    """Return whether a part of a result is a map, of the types that are read from it."""
    if not isinstance(given, dict) or not isinstance(given.get("regions"), list) or not given["regions"]:
        return False
    numbers = all(isinstance(given.get(name), (int, float)) for name in ("wall", "cpu", "busy", "launches", *_PRICES))
    return numbers and all(map(_is_row, given["regions"])) and _is_tree(given["regions"])


_PRICES = ("node", "replay")
_ROW: dict[str, Any] = {
    "number": int, "inside": int, "kind": str, "name": str, "class": str, "calls": (int, float), "launches": (int, float),
    "gpu": (int, float), "cpu": (int, float), "verdict": str, "said": str, "like": int, "causes": list,
}  # fmt: skip


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and all(isinstance(row.get(name), kind) for name, kind in _ROW.items())


def _is_tree(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether each row but the first lies inside one before it."""
    seen = {-1}
    for row in rows:
        if row["inside"] not in seen or (row["inside"] == -1) != (len(seen) == 1) or row["number"] in seen:
            return False
        seen.add(row["number"])
    return True


def shown(given: RegionMap) -> list[tuple[int, Region]]:
    """Return the regions that a reader needs, as `rows`: without the insides of equal ones and, of many, without small ones."""
    apart = [(depth, region) for depth, region in rows(given) if not any(outer.like >= 0 for outer in given.around(region))]
    return apart if len(apart) <= _MANY else [row for row in apart if _is_large(given, row[1])]


def _is_large(given: RegionMap, region: Region) -> bool:
    """Return whether a region has a share that shows, or fails by itself."""
    shares = ((region.gpu, given.whole.gpu), (region.launches, given.launches), (region.cpu, given.whole.cpu))
    least = _SMALL_INSIDE if given.inside_graph(region) else _SMALL
    return any(part >= least * whole for part, whole in shares) or (region.verdict in _BAD and region.like < 0)


def rows(given: RegionMap) -> Iterator[tuple[int, Region]]:
    """Yield each region after the one that it is inside of, with its depth."""
    inner: dict[int, list[Region]] = {}
    for region in given.regions:
        inner.setdefault(region.inside, []).append(region)
    waiting = [(0, given.whole)]
    while waiting:
        depth, region = waiting.pop()
        yield depth, region
        waiting += [(depth + 1, part) for part in reversed(inner.get(region.number, []))]
