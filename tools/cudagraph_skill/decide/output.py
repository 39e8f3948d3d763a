"""Write a decision, as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.capture.hazard_of import hazard_of
from cudagraph_skill.decide.decision import ALREADY, BUSY, GRAPH, UNMARKED
from cudagraph_skill.decide.steps import PROFILER_STEP
from cudagraph_skill.text import duration, printable, shortened

if TYPE_CHECKING:
    from cudagraph_skill.decide.decision import Decision
    from cudagraph_skill.decide.steps import Measured, Refused
    from cudagraph_skill.text import Steps

_NEXT = {
    ALREADY: "references/after-capture.md#when-to-stop-a-replay-against-the-limit-of-skill-decide",
    BUSY: "references/profiling.md#when-not-to-use-cuda-graphs-over-95--busy",
}
_MEASURE = "references/profiling.md#fair-ab-eager-against-graph"
_LISTED = 5
_PROFILED = (
    "the profiler made the CPU slower, so the step without it is shorter, and the gain smaller "
    "(references/profiling.md#cpu-cost-per-operation-and-per-graph-node)"
)


def exit_code(decision: Decision) -> int:
    """Return 0 if a graph pays or is there, 1 if not, or if no step is marked."""
    return 0 if decision.verdict in (GRAPH, ALREADY) else 1


def text(decision: Decision, steps: Steps) -> str:
    """Write a decision for people: the sentence, the numbers behind it, and what to do next."""
    lines = [f"decide: {decision.said}", *_numbers(decision), *(f"note: {note}" for note in notes(decision.measured))]
    return "\n".join([*map(printable, lines), f"next: {next_step(decision, steps)}"])


def next_step(decision: Decision, steps: Steps) -> str:
    """Return one command to paste: explain what a capture would refuse, else read on."""
    ids = [id_ for refused, _ in _refused(decision) if (id_ := hazard(refused))]
    if decision.verdict in (GRAPH, UNMARKED) and ids:
        return steps.explain(ids[0])
    return steps.read(_NEXT.get(decision.verdict, _MEASURE))


def data(decision: Decision, steps: Steps) -> dict[str, Any]:
    """Return a decision as JSON data; times are in seconds, of the typical step unless they say otherwise."""
    step, measured = decision.measured.typical, decision.measured
    return {
        "verdict": decision.verdict,
        "summary": decision.said,
        "trace": {"maker": measured.maker, "gpu": measured.gpu, "gpus": measured.gpus},
        "steps": {
            "name": step.name,
            "counted": len(measured.steps),
            "left_out": measured.left_out,
            "walls": [each.wall for each in measured.steps],
        },
        "now": {
            "wall": step.wall,
            "busy": step.busy,
            "nodes": step.nodes,
            "in_graphs": step.in_graphs,
            "collectives": step.collectives,
            "host": step.host,
        },
        "as_graph": {"fast": decision.fast, "slow": decision.slow},
        "idle": dict(decision.eats),
        "refused": [{**refused._asdict(), "times": times, "hazard": hazard(refused)} for refused, times in _refused(decision)],
        "kernels": [{"name": name, "seconds": time / 1e9} for name, time in step.kernels.most_common(_LISTED)],
        "notes": notes(measured),
        "next": next_step(decision, steps),
    }


def _numbers(decision: Decision) -> list[str]:
    step, measured = decision.measured.typical, decision.measured
    walls = sorted(each.wall for each in measured.steps)
    spread = f" ({len(walls)} steps, {duration(walls[0])} to {duration(walls[-1])})" if len(walls) > 1 else ""
    share = f"{100 * step.busy / step.wall:.0f} %"
    return [
        f"  now         {duration(step.wall)} a step{spread}; the GPU is busy for {duration(step.busy)} ({share}) with "
        f"{step.nodes:.0f} kernels, copies and fills",
        f"  as a graph  {_range(decision)}, predicted",
        *_listed("idle", [f"{duration(seconds)} {name}" for name, seconds in decision.eats]),
        *_listed("kernels", [_kernel(name, time, step.in_kernels) for name, time in step.kernels.most_common(3)]),
        *_listed("in the way", [_told(refused, times) for refused, times in _refused(decision)[:_LISTED]]),
        f"  trace       {', '.join(filter(None, (measured.maker, measured.gpu, step.name)))}",
    ]


def _listed(name: str, parts: list[str]) -> list[str]:
    return [f"  {name:10}  {'; '.join(parts)}"] if parts else []


def _range(decision: Decision) -> str:
    fast, slow = duration(decision.fast), duration(decision.slow)
    return fast if fast == slow else f"{fast} to {slow}"


def _kernel(name: str, time: int, whole: float) -> str:
    return f"{shortened(name)} {100 * time / 1e9 / whole:.0f} %"


def _told(refused: Refused, times: int) -> str:
    named = f"{refused.operation} ({refused.what})" if refused.operation else refused.what
    return " ".join(filter(None, (named, f"{times} times" if times > 1 else "", hazard(refused))))


def _refused(decision: Decision) -> list[tuple[Refused, int]]:
    return decision.measured.typical.refused.most_common()


def hazard(refused: Refused) -> str:
    """Return the id of the hazard behind a call that a capture would refuse; "" for memory, which a warm-up allocates."""
    if refused.what.startswith("Memcpy"):
        line = ".cpu()" if "DtoH" in refused.what else ""
        return hazard_of({"kind": "fails", "op": "aten::copy_"}, line)
    if "Synchronize" not in refused.what and "Memcpy" not in refused.what:
        return ""
    return hazard_of({"kind": "fails", "op": refused.operation or refused.what})


def notes(measured: Measured) -> list[str]:
    """Return what to know about the numbers of a trace."""
    said = [_PROFILED]
    step = measured.typical
    if measured.unread:
        said.append(
            f"{measured.unread} kernels, copies or fills have no usable times and are left out: the GPU works longer than told"
        )
    if measured.gpus > 1:
        said.append(f"the trace has work of {measured.gpus} GPUs; this is the busiest one")
    if len(measured.steps) == 1 and step.name.startswith(PROFILER_STEP):
        said.append("the trace has one step only, which may be warm-up: profile several")
    if measured.left_out:
        said.append("the first step of the trace is left out, because it may be warm-up")
    names = sorted({each.name.rstrip("0123456789") for each in measured.steps})
    if len(names) > 1:
        told = ", ".join(map(shortened, names[:4]))
        said.append(f"the steps have several names ({told}), and the medians mix them: give --step one of them")
    if step.host:
        said.append(
            f"in pauses of over 1 ms the CPU does something else than operations for {duration(step.host)} of the step, such "
            "as loading data: that time stays"
        )
    if step.collectives:
        share = f"{100 * step.collectives / step.in_kernels:.0f} %"
        said.append(f"kernels of NCCL take {share} of the GPU's time, and part of that is waiting for other ranks")
    return said
