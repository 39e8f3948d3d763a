"""Make a page of a comparison of ways: what a step takes by the clock, and how long the GPU works in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.bench import orders, output
from cudagraph_skill.bench.ways import BY_NAME, EAGER, PUBLISHED_IN, WORKLOAD
from cudagraph_skill.report.page import Bar, Cell, Page, Table
from cudagraph_skill.text import duration

if TYPE_CHECKING:
    from cudagraph_skill.bench.orders import Spread
    from cudagraph_skill.bench.record import Bench, Result, Row


def page(bench: Bench, follow: str) -> Page:
    """Return the page of all workloads; `follow` is the next command."""
    first = bench.results[0]
    return Page(
        title="skill bench",
        verdict="measured" if output.is_complete(bench) else "incomplete",
        said=f"{first.workload}: {output.said(first)}",
        next=follow,
        of="step",
        bars=[bar for result in bench.results for bar in _bars(result, several=len(bench.results) > 1)],
        tables=[table for result in bench.results for table in _tables(bench, result) if table.rows],
        notes=[line for result in bench.results for line in (*output.findings(result), *output.notes(bench, result))],
        facts=[("published", PUBLISHED_IN), *((name, value) for name, value in bench.machine.items() if value)],
    )


def _bars(result: Result, several: bool) -> list[Bar]:
    """Return the wall of each way, and how long the GPU works without a graph: no graph of these kernels takes less."""
    where = f"{result.workload}: " if several else ""
    rows = [row for row in result.rows if row.timed and row.profiled and not row.why]
    walls = [_bar(f"{where}{BY_NAME[row.way].label}", _kind(row), orders.wall(row)) for row in rows]
    busy = [_bar(f"{where}the GPU works, no graph", "limit", orders.busy(row)) for row in rows if row.way == EAGER]
    return [*walls, *busy]


def _kind(row: Row) -> str:
    return "now" if row.way == EAGER else "graph"


def _bar(name: str, kind: str, seconds: Spread) -> Bar:
    said = f"{duration(seconds.median)} ({duration(seconds.low)} to {duration(seconds.high)})"
    return Bar(name, kind, seconds.median, seconds.low, seconds.high, said)


def _tables(bench: Bench, result: Result) -> list[Table]:
    rows = [list(map(Cell, row)) for row in output.rows(bench, result)]
    failed = [[Cell(BY_NAME[row.way].label), Cell(row.why)] for row in result.rows if row.why]
    said = f"{result.workload}: {WORKLOAD[result.workload].said}"
    return [Table(said, output.headings(result), rows), Table("Without numbers", ("way", "why"), failed)]
