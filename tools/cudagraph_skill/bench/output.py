"""Write a result as text or Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.bench import orders, record
from cudagraph_skill.bench.ways import BY_NAME, COMPILED, EAGER, PUBLISHED_IN, STEPS, UNTRAINED, WORKLOAD, WORKLOADS
from cudagraph_skill.text import as_json, duration, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.bench.orders import Spread
    from cudagraph_skill.bench.record import Bench, Result, Row

AFTER = "references/profiling.md#why-self-cpu-time-total-misleads-for-graphs"
_MARK = "*"
_MIB = 2**20
_LOST = 0.8  # of the operations without a graph: where a replay has fewer, the profiler missed some
_EQUAL, _NEAR = 0.0, 1e-3  # relative distance of two losses


def is_complete(bench: Bench) -> bool:
    """Return whether every way of every workload has its numbers."""
    return all(row.timed and row.profiled and not row.why for result in bench.results for row in result.rows)


def data(bench: Bench, follow: str) -> dict[str, Any]:
    """Return the result as JSON data: what was measured, from which it can be shown again, and what the text says of it."""
    says = [
        {"workload": result.workload, "said": said(result), "findings": findings(result), "notes": notes(bench, result)}
        for result in bench.results
    ]
    verdict = "measured" if is_complete(bench) else "incomplete"
    return {"verdict": verdict, **record.data(bench), "says": says, "next": follow}


# Sentences ------------------------------------------------------------------------------------------------------------


def said(result: Result) -> str:
    """Return the fastest way by wall time, as one sentence."""
    rows = [row for row in map(result.row, BY_NAME) if row is not None]
    if not rows:
        return "no way of it could be measured"
    fastest = min(rows, key=lambda row: orders.wall(row).median)
    times = orders.gain(result, fastest.way, orders.wall)
    against = f", {times:.2f} times as fast as no graph" if times is not None and fastest.way != EAGER else ""
    return f"{BY_NAME[fastest.way].label} is the fastest by wall time: {duration(orders.wall(fastest).median)} a step{against}"


def findings(result: Result) -> list[str]:
    """Return the two orders and their difference, as sentences."""
    rows = orders.in_table(result)
    if len(rows) < 2:
        return []
    published = {True: ", as published", False: ", not as published", None: ""}[orders.as_published(result)]
    compared = published if WORKLOAD[result.workload].published else ""
    return [
        f"by Self CPU time: {orders.order(rows, orders.self_cpu)}{compared}",
        f"by wall time: {orders.order(rows, orders.wall)}",
        orders.difference(result),
    ]


def notes(bench: Bench, result: Result) -> list[str]:
    """Return what makes the numbers less certain, and what they show besides."""
    beside = dict.fromkeys([bench.beside, *(row.beside for row in result.rows)])
    return [*(f"{_MARK} {each}" for each in beside if each), *_agreement(result), *_lost(result), *_published_part(result)]


def _agreement(result: Result) -> Iterator[str]:
    """Say how far each way is from steps without a graph: by the numbers of the model, or by the loss if they do not change."""
    eager = result.row(EAGER)
    rows = [row for row in map(result.row, BY_NAME) if row is not None and row.way != EAGER]
    if eager is None or not rows:
        return
    name, what = ("moved", "the change of the model") if eager.timed[0].moved else ("loss", "the loss")
    base = getattr(eager.timed[0], name)
    far = {row.way: max(abs(getattr(part, name) - base) for part in row.timed) / (abs(base) or 1.0) for row in rows}
    equal = [BY_NAME[way].label for way, distance in far.items() if distance == _EQUAL]
    if equal:
        yield f"after 10 steps from one start {what} equals that without a graph, to the last digit: {'; '.join(equal)}"
    for way, distance in far.items():
        if distance > _EQUAL:
            why = _reason(way, result, distance)
            yield f"after 10 steps from one start {what} is off by {distance:.1e} of it: {BY_NAME[way].label}{why}"


def _reason(way: str, result: Result, distance: float) -> str:
    if way == UNTRAINED:
        return ", because a block does not train"
    if way == COMPILED and WORKLOAD[result.workload].published:
        return ", because compiled dropout draws other random numbers"
    return ", which is rounding" if distance < _NEAR else ""


def _lost(result: Result) -> Iterator[str]:
    eager, rows = result.row(EAGER), [row for row in map(result.row, BY_NAME) if row is not None]
    for row in rows:
        if eager is not None and "compile" not in row.way and _operations(row) < _LOST * _operations(eager):
            yield (
                f"the profiler saw {_operations(row)} operations in a step of {BY_NAME[row.way].label} and "
                f"{_operations(eager)} without a graph: its GPU busy time may be too short"
            )


def _operations(row: Row) -> int:
    return row.profiled[0].operations


def _published_part(result: Result) -> list[str]:
    if not WORKLOAD[result.workload].published:
        return []
    return [
        "in the published run of the sub-module the block before it got no gradients (its sample came from under no_grad): "
        "its own row shows that, and the one above it trains all blocks"
    ]


# Tables ---------------------------------------------------------------------------------------------------------------


def headings(result: Result) -> tuple[str, ...]:
    """Return the headings of a workload's table; only the blog's has published numbers."""
    published = (f"Self CPU of {STEPS} steps, published",) if WORKLOAD[result.workload].published else ()
    return ("way", *published, f"Self CPU of {STEPS} steps", "wall of a step", "submit", "GPU busy", "reserved")


def cells(bench: Bench, result: Result, row: Row) -> tuple[str, ...]:
    """Return the cells of a row that was measured."""
    mark = _MARK if bench.beside or row.beside else ""
    published = (_published(row),) if WORKLOAD[result.workload].published else ()
    return (
        BY_NAME[row.way].label,
        *published,
        _milliseconds(orders.self_cpu(row), orders.gain(result, row.way, orders.self_cpu), row) + mark,
        _microseconds(orders.wall(row)) + _times(orders.gain(result, row.way, orders.wall), row) + mark,
        _microseconds(orders.submit(row)) + mark,
        _microseconds(orders.busy(row)) + mark,
        _mebibytes(orders.memory(row)) + mark,
    )


def _published(row: Row) -> str:
    way = BY_NAME[row.way]
    shown = " and ".join(f"{seconds * 1e3:.2f}" for seconds in way.published)
    return f"{shown} ms{f', {way.against / way.published[0]:.2f}x' if way.against else ''}" if shown else "-"


def _times(times: float | None, row: Row) -> str:
    return "" if times is None or row.way == EAGER else f", {times:.2f}x"


def _range(spread: Spread, unit: float, form: str) -> str:
    low, high = f"{spread.low / unit:{form}}", f"{spread.high / unit:{form}}"
    return "" if low == high else f" ({low}-{high})"


def _milliseconds(spread: Spread, times: float | None, row: Row) -> str:
    return f"{spread.median * 1e3:.2f} ms{_range(spread, 1e-3, '.2f')}{_times(times, row)}"


def _microseconds(spread: Spread) -> str:
    return f"{spread.median * 1e6:.0f} us{_range(spread, 1e-6, '.0f')}"


def _mebibytes(spread: Spread) -> str:
    return f"{spread.median / _MIB:.0f} MiB{_range(spread, _MIB, '.0f')}"


def rows(bench: Bench, result: Result) -> list[tuple[str, ...]]:
    """Return the cells of all ways that were measured."""
    return [cells(bench, result, row) for row in result.rows if row.timed and row.profiled and not row.why]


def _failed(result: Result) -> list[str]:
    return [f"{BY_NAME[row.way].label}: {row.why}" for row in result.rows if row.why]


# Texts ----------------------------------------------------------------------------------------------------------------


def machine(bench: Bench) -> str:
    """Return where and when it was measured, and by which command."""
    given = {name: value or "unknown" for name, value in bench.machine.items()}
    parts = (f"{word}{given.get(name, 'unknown')}" for name, word in _PARTS.items())
    host = f"{given.get('cpu', 'unknown processor')} ({given.get('cores', '?')} cores)"
    rounds = f"{bench.rounds} round{'s' * (bench.rounds != 1)}"
    return f"{', '.join(parts)}, {host}; {bench.date}, {rounds}, `{bench.command}`"


_PARTS = {"gpu": "", "driver": "driver ", "torch": "torch ", "cuda": "CUDA ", "python": "Python "}
_EXPLAINED = (
    f"Median (10th-90th percentile), x: times less than no graph. Self CPU: of {STEPS} steps under torch.profiler, as the blog "
    "takes it; GPU busy from the same processes. Wall, submit and memory: from processes that were never profiled"
)


def text(bench: Bench, follow: str) -> str:
    """Return the tables of all workloads, with what they show; `follow` is the next command."""
    blocks = [_block(bench, result) for result in bench.results]
    end = [f"published: {PUBLISHED_IN}", f"machine: {machine(bench)}", f"next: {follow}"]
    return "\n\n".join([*blocks, "\n".join(map(printable, [_EXPLAINED, *end]))])


def _block(bench: Bench, result: Result) -> str:
    table = [headings(result), *rows(bench, result)]
    wide = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [f"bench: {result.workload}: {said(result)}", f"  {WORKLOAD[result.workload].said}"]
    lines += ["  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, wide, strict=True)).rstrip() for row in table]
    lines += [f"  {line}" for line in _failed(result)]
    lines += findings(result)
    lines += [f"note: {note}" for note in notes(bench, result)]
    return "\n".join(map(printable, lines))


def markdown(bench: Bench) -> str:
    """Return the tables as Markdown, with where they were measured."""
    parts = [part for result in bench.results for part in _markdown_block(bench, result)]
    return (
        "\n\n".join([*parts, f"{_EXPLAINED}. Published: {PUBLISHED_IN}.", f"Measured on {machine(bench)}.", ""]).rstrip() + "\n"
    )


def _markdown_block(bench: Bench, result: Result) -> list[str]:
    table = [headings(result), *rows(bench, result)]
    lines = [f"| {' | '.join(row)} |" for row in table]
    lines.insert(1, "|" + "---|" * len(table[0]))
    items = [*_failed(result), *findings(result), *notes(bench, result)]
    return [
        f"### {result.workload}: {WORKLOAD[result.workload].said}",
        "\n".join(lines),
        "\n".join(f"- {_sentence(item)}" for item in items),
    ]


def _sentence(text: str) -> str:
    escaped = text.replace("*", r"\*").replace("<", r"\<")
    return escaped[:1].upper() + escaped[1:] + "."


def listed(form: str) -> str:
    """Return the workloads, as text or JSON."""
    if form == "json":
        return as_json(
            {"workloads": [{"name": each.name, "what": each.said, "published": each.published} for each in WORKLOADS]}
        )
    wide = max(len(each.name) for each in WORKLOADS)
    return "\n".join(f"{each.name:{wide}}  {each.said}" for each in WORKLOADS)
