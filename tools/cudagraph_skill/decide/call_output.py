"""Write the decision about a call that was measured on this GPU, as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture import output as capture_output
from cudagraph_skill.decide import call
from cudagraph_skill.decide.decision import BUSY, GRAPH, LITTLE, percent, times
from cudagraph_skill.text import duration, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.capture.cost import Cost, Kernels, Limit, Times
    from cudagraph_skill.capture.result import CaptureResult
    from cudagraph_skill.check.output import Reader
    from cudagraph_skill.text import Steps

_BUSY = "references/profiling.md#when-not-to-use-cuda-graphs-over-95--busy"
_AFTER = "references/after-capture.md#when-to-stop-a-replay-against-the-limit-of-skill-decide"
_ORDER = "references/after-capture.md#in-which-order-to-try-what-makes-a-replay-faster"
_BRANCHES = "references/after-capture.md#branches-inside-one-graph-fork-and-join"
_FAR = 1.5  # times the limit, from which on there is something to gain after the capture
_NAMED = 4  # kernels


def exit_code(results: Sequence[CaptureResult]) -> int:
    """Return the worst: 0 a graph pays and captures, 1 it does not pay, or not yet capture, else that of the check."""
    return max((_exit_code(result) for result in results), default=2)


def _exit_code(result: CaptureResult) -> int:
    if result.cost is None or result.verdict not in ("safe", "capture_error", "silent_wrong"):
        return capture_output.exit_code([result])
    return 0 if call.verdict(result, result.cost) == GRAPH else 1


def text(result: CaptureResult, reader: Reader) -> str:
    """Write one decision for people; without costs, what kept the call from being measured."""
    if result.cost is None:
        return capture_output.text(result, "full", reader)
    lines = [
        f"decide: {result.target.name}: {call.said(result, result.cost)}",
        *_numbers(result, result.cost),
        *(f"note: {note}" for note in (*notes(result.cost), *result.notes)),
    ]
    return "\n".join([*map(printable, lines), f"next: {next_step(result, reader.steps)}"])


def data(result: CaptureResult, reader: Reader) -> dict[str, Any]:
    """Return one decision as JSON data, beside what a check of the call gives; times are in seconds."""
    checked = capture_output.data(result, reader)
    cost = result.cost
    if cost is None:
        return {**checked, "decision": None}
    now, graph = call.parts(cost)
    decision = {
        "verdict": call.verdict(result, cost),
        "said": call.said(result, cost),
        "now": {**cost.eager._asdict(), "submit": cost.submit},
        "as_graph": {
            "measured": cost.graph._asdict() if cost.graph else None,
            "predicted": cost.predicted,
            "within": cost.within,
            "capture": cost.capture,
            "memory": cost.memory,
            "break_even": cost.break_even,
        },
        "as_parts": _record(call.as_parts(result)),
        "limit": cost.limit._asdict() if cost.limit else None,
        "kernels": cost.kernels._asdict() if cost.kernels else None,
        "time_now": [part._asdict() for part in now],
        "time_as_graph": [part._asdict() for part in graph],
        "notes": notes(cost),
    }
    return {**checked, "decision": decision, "next": next_step(result, reader.steps)}


def _record(parts: call.Parts | None) -> dict[str, Any] | None:
    return (
        {"graphs": [region.name for region in parts.graphs], "predicted": [parts.least, parts.most]}
        if parts is not None
        else None
    )


def next_step(result: CaptureResult, steps: Steps) -> str:
    """Return one command to paste."""
    judged = call.verdict(result, result.cost) if result.cost is not None else ""
    if judged == BUSY:
        return steps.read(_BUSY)
    if judged in (GRAPH, LITTLE) and result.cost is not None and call.is_tiny(result.cost) and result.verdict == "safe":
        return steps.read(_AFTER)
    return capture_output.next_step(result, steps)


def notes(cost: Cost) -> list[str]:
    """Return what makes the numbers less certain, and what would shorten a replay."""
    said = []
    seen = cost.kernels
    if seen is not None and seen.most > seen.least:
        said.append(f"calls differ: {seen.least} to {seen.most} kernels, copies and fills in those that were profiled")
    if seen is not None and abs(seen.captured_nodes - seen.nodes) >= 1:
        said.append(
            f"while a stream captures, the call takes another path, of {seen.captured_nodes:.0f} nodes: it is the one predicted"
        )
    if cost.eager.most > 1.5 * cost.eager.least:
        said.append(
            f"eager calls take {duration(cost.eager.least)} to {duration(cost.eager.most)}: something else may use this machine"
        )
    if call.is_tiny(cost) and seen is not None:
        said.append(
            f"most of a replay is the price of {seen.captured_nodes:.0f} nodes ({seen.shortest * 1e6:.1f} us at least, and "
            f"{seen.node * 1e6:.2f} us between them): fewer kernels shorten it, {_ORDER}"
        )
    elif cost.as_graph is not None and cost.limit is not None and cost.as_graph > _FAR * cost.limit.seconds:
        said.append(f"a replay takes {times(cost.as_graph / cost.limit.seconds)} times the limit: what shortens it, {_ORDER}")
    if call.is_serial(cost):
        said.append(f"the nodes of a replay are a chain, none overlaps another: parts that do not need each other, {_BRANCHES}")
    return said


def _numbers(result: CaptureResult, cost: Cost) -> list[str]:
    lines = [f"  now         {_times(cost.eager)} a call; it returns after {duration(cost.submit)}"]
    if cost.kernels is not None:
        lines[0] += f"; the GPU works for {_busy(cost.kernels, cost.eager)}"
    lines += [f"  as a graph  {_as_graph(cost)}"] if cost.as_graph is not None else []
    lines += (
        [f"  limit       {_limit(cost.limit, cost.kernels)}"] if cost.limit is not None and cost.kernels is not None else []
    )
    lines += [f"  as parts    {parts(call.as_parts(result))}"] if result.map is not None else []
    now, graph = call.parts(cost)
    lines += [f"  {name:10}  {_parts(parts)}" for name, parts in (("time now", now), ("in a graph", graph)) if parts]
    if call.verdict(result, cost) == GRAPH:
        lines.append(
            "  how         as one graph of the whole call, which captures as it is; `tune` in place of `decide` writes the code"
        )
    if cost.graph is not None and cost.capture is not None:
        lines.append(f"  capture     {capture(cost)}")
    if cost.kernels is not None and cost.kernels.longest:
        lines.append(f"  kernels     {_kernels(cost.kernels)}")
    if result.verdict != "safe":
        lines.append(f"  in the way  {_in_the_way(result)}")
    machine = ", ".join(filter(None, [result.machine.get("gpu", ""), f"torch {result.machine.get('torch', '')}"]))
    return [*lines, f"  machine     {machine}"]


def _times(given: Times) -> str:
    return f"{duration(given.median)} ({duration(given.least)} to {duration(given.most)})"


def _busy(kernels: Kernels, eager: Times) -> str:
    share = percent(min(1.0, kernels.busy / eager.median))
    return f"{duration(kernels.busy)} ({share}) on {kernels.nodes:.0f} kernels, copies and fills"


def _as_graph(cost: Cost) -> str:
    """Return measured and predicted times."""
    within = f" ({duration(cost.within[0])} to {duration(cost.within[1])})" if cost.within else ""
    predicted = f"{duration(cost.predicted)}{within} predicted" if cost.predicted is not None else ""
    if cost.graph is None:
        return predicted
    return f"{_times(cost.graph)} measured" + f"; {predicted}" * bool(predicted)


def parts(found: call.Parts | None) -> str:
    """Return what graphs of the parts that capture would bring."""
    if found is None:
        return "no part that was tried captures"
    names = [region.name for region in found.graphs[:_NAMED]]
    more = f" and {len(found.graphs) - _NAMED} more" if len(found.graphs) > _NAMED else ""
    seconds = f"{duration(found.least)} to {duration(found.most)}"
    return f"{seconds} predicted, with graphs of {', '.join(names)}{more}, which capture now"


def _limit(limit: Limit, kernels: Kernels) -> str:
    products = f"{limit.products} products of {limit.flops / 1e9:.3g} GFLOP, none under {kernels.shortest * 1e6:.1f} us, and "
    return f"{duration(limit.seconds)}: {products * bool(limit.products)}{limit.bytes / 1e6:.3g} MB moved once; all else fused"


def _parts(parts: Sequence[call.Part]) -> str:
    return "; ".join(f"{duration(part.seconds)} {part.what}" for part in parts)


def capture(cost: Cost) -> str:
    """Return what a capture costs: seconds, when it has paid, memory."""
    after = f"pays off after {cost.break_even} calls" if cost.break_even is not None else "never pays off"
    memory = f"; {cost.memory / (1 << 20):.0f} MiB of GPU memory" if cost.memory is not None else ""
    return f"{duration(cost.capture or 0)}, {after}{memory}"


def _kernels(kernels: Kernels) -> str:
    return "; ".join(f"{shortened(name)} {percent(taken / kernels.busy)}" for name, taken in kernels.longest[:_NAMED])


def _in_the_way(result: CaptureResult) -> str:
    first = next((finding for finding in result.findings if finding.observed), None)
    where = f"{first.path}:{first.line} {first.id}: " if first is not None else ""
    return f"{where}{result.said}"
