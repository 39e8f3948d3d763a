"""What a map says: each region of a call with its share, whether it captures, and what graphs would bring.

Predictions are those of references/profiling.md: a replay takes the time that the GPU works, 0.35 us for each node and 10 us
(fitted on an H200); a call of which parts are graphs takes that, or what its CPU still has to do, if that is longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cudagraph_skill.check.findings import Finding

_NODE, _LAUNCH, _NODE_ON_CPU = 0.35e-6, 10e-6, 0.33e-6  # seconds
_BAD = ("capture_error", "silent_wrong", "not_repeatable", "error_in_eager")


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


class RegionMap(NamedTuple):
    """The regions of a call, the whole first, and its seconds: `wall`, of the CPU until it returns, that the GPU works."""

    wall: float
    cpu: float
    busy: float
    launches: float
    regions: Sequence[Region]

    @property
    def whole(self) -> Region:
        """Return the call itself."""
        return self.regions[0]

    def depth(self, region: Region) -> int:
        """Return how many regions a region is inside of."""
        return 0 if region.inside < 0 else 1 + self.depth(self._by_number()[region.inside])

    def _by_number(self) -> Mapping[int, Region]:
        return {region.number: region for region in self.regions}

    def inside_graph(self, region: Region) -> bool:
        """Return whether a region lies within another that captures."""
        outer = self._by_number().get(region.inside)
        return outer is not None and (outer.verdict == "safe" or self.inside_graph(outer))

    def graphs(self) -> list[Region]:
        """Return the outermost regions that capture."""
        return [region for region in self.regions if region.verdict == "safe" and not self.inside_graph(region)]

    def to_fix(self) -> list[Region]:
        """Return the innermost regions that do not capture, those that hold the most of the CPU's time first."""
        failing = [region for region in self.regions if region.verdict in _BAD]
        outer = {region.inside for region in failing}
        leaves = [region for region in failing if region.number not in outer and region.like < 0]
        return sorted(leaves, key=lambda region: -self._with_equals(region))

    def _with_equals(self, region: Region) -> float:
        return region.cpu + sum(other.cpu for other in self.regions if other.like == region.number)

    def not_tried(self) -> list[Region]:
        """Return the regions of which nothing is known: neither tried nor within a graph."""
        return [
            region
            for region in self.regions
            if not region.verdict and not self.inside_graph(region) and region.kind != "backward"
        ]

    def as_graph(self) -> float:
        """Predict the seconds of a call that is one graph."""
        return min(self.wall, self.busy + _NODE * self.launches + _LAUNCH)

    def with_graphs(self, graphs: Sequence[Region]) -> float:
        """Predict the seconds of a call of which some regions are graphs.

        A graph of a module holds its backward pass, too: of that time, as large a part as its forward launches are of all.
        """
        if any(region.number == self.whole.number for region in graphs):
            return self.as_graph()
        backward = sum(region.cpu for region in self.regions if region.kind == "backward")
        forward = sum(
            region.launches for region in self.regions if region.inside == self.whole.number and region.kind == "module"
        )
        saved = 0.0
        for region in graphs:
            share = region.launches / forward if forward and region.kind == "module" else 0.0
            saved += region.cpu + share * backward - _LAUNCH * region.calls - _NODE_ON_CPU * region.launches
        return min(self.wall, max(self.busy + _NODE * self.launches, self.wall - max(saved, 0.0)))


def of_result(given: Mapping[str, Any], findings: Mapping[int, Finding | None]) -> RegionMap:
    """Return the map of a guest's result; `findings` has the first finding of each region by its number."""
    wall, cpu, busy, launches = (float(given[name]) for name in ("wall", "cpu", "busy", "launches"))
    return RegionMap(wall, cpu, busy, launches, [_region(row, findings.get(row["number"])) for row in given["regions"]])


def _region(row: Mapping[str, Any], finding: Finding | None) -> Region:
    named = {"class_name" if name == "class" else name: row[name] for name in _ROW if name != "causes"}
    return Region(**named, finding=finding)


def is_map(given: Any) -> bool:
    """Return whether a part of a result is a map, of the types that are read from it."""
    if not isinstance(given, dict) or not isinstance(given.get("regions"), list) or not given["regions"]:
        return False
    numbers = all(isinstance(given.get(name), (int, float)) for name in ("wall", "cpu", "busy", "launches"))
    return numbers and all(_is_row(row) for row in given["regions"]) and given["regions"][0]["inside"] == -1


_ROW: dict[str, Any] = {
    "number": int, "inside": int, "kind": str, "name": str, "class": str, "calls": (int, float), "launches": (int, float),
    "gpu": (int, float), "cpu": (int, float), "verdict": str, "said": str, "like": int, "causes": list,
}  # fmt: skip


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and all(isinstance(row.get(name), kind) for name, kind in _ROW.items())


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
