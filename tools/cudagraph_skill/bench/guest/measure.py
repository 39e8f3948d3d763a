"""Run one request: look at the machine, time one way of one workload, or profile it. Only a process that profiles has a profiler."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING, Any

import torch

from cudagraph_skill.bench.guest import ways, workloads
from cudagraph_skill.capture.guest import calibration, regions, verdict, why_failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from cudagraph_skill.bench.guest.ways import Step
    from cudagraph_skill.bench.guest.workloads import Work

_SET_UP = 5  # steps before anything is measured: all lazy work is done by then
_COMPARED = 10  # steps from one start, after which the losses of the ways are compared
_BATCHES, _SECONDS, _MOST = 15, 0.05, 200  # of the wall time; seconds and steps of a batch
_SUBMITS = 40
_WAIT, _WARM, _ACTIVE = 1, 2, 7  # steps of the profiler's schedule, as in the blog


def prepare(request: dict[str, Any]) -> None:
    """Prepare nothing: the code is ours, and imported."""


def run(request: dict[str, Any], prepared: None, report: Any) -> None:  # noqa: ARG001 - as above
    """Do what the request asks for and report the result, or what went wrong in a sentence."""
    task: Callable[[dict[str, Any]], dict[str, Any]] = {"look": look, "compile": compiled, "time": timed, "profile": profiled}[
        request["task"]
    ]
    why = verdict.unusable()
    if why:
        report.result({"error": why})
        return
    try:
        report.result({**task(request), "beside": " ".join(verdict.other_processes())})
    except torch.cuda.OutOfMemoryError:
        report.result({"error": "the GPU has too little memory for this way"})
    except Exception as error:  # noqa: BLE001 - a release that lacks something, or a compiler: the other ways go on
        report.result({"error": f"raised {why_failed.shown(why_failed.innermost(error))}"})


def look(_: dict[str, Any]) -> dict[str, Any]:
    """Return the machine."""
    versions = {name: value for name, value in verdict.machine().items() if name != "executable"}  # a kept result is published
    return {"machine": {**versions, "cpu": _processor(), "cores": str(os.cpu_count() or 0)}}


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        match = re.search(r"^model name\s*:\s*(.+)", lines.read(), re.MULTILINE)
        return match[1] if match else ""
    return ""


# A way ----------------------------------------------------------------------------------------------------------------


def made(request: dict[str, Any], mark: ways.Mark, device: str = "cuda") -> tuple[Work, Step, Start]:
    """Return a workload and its step in one way, set up by the same steps for every way, and the start that it is back at."""
    torch.manual_seed(0)
    work = workloads.WORKLOADS[request["workload"]](device)
    start = Start(work)
    step = ways.WAYS[request["way"]](work, mark)
    run_steps(work, step, _SET_UP)
    start.restore()
    return work, step, start


class Start:
    """What training changes, to begin again from it; in place, because graphs have the addresses."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._kept = [(tensor, tensor.detach().clone()) for tensor in (*work.model.parameters(), *work.model.buffers())]

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def moved(self) -> float:
        """Return how far all numbers of the model together are from the start."""
        away = (float((tensor.double() - before.double()).square().sum()) for tensor, before in self._kept)
        return float(sum(away) ** 0.5)

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def restore(self) -> None:
        """Go back, and begin random numbers again."""
        for tensor, before in self._kept:
            tensor.copy_(before)
        states = self._work.optimizer.state.values() if self._work.optimizer is not None else ()
        for state in states:
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    value.zero_()
        torch.manual_seed(1)


def run_steps(work: Work, step: Step, count: int) -> Tensor:
    """Run steps on one batch after the other; return the last loss."""
    loss = work.batches[0][1]
    for number in range(count):
        loss = step(*work.batches[number % workloads.BATCHES])
    return loss


def compiled(request: dict[str, Any]) -> dict[str, Any]:
    """Compile a way with all processors, so that the processes that are measured find its kernels in the cache."""
    made(request, ways.unmarked)
    return {}


# Time -----------------------------------------------------------------------------------------------------------------


def timed(request: dict[str, Any]) -> dict[str, Any]:
    """Return seconds of a step, until a step is submitted, bytes of memory, and the loss and the model after some."""
    start = time.perf_counter()
    with _no_workers(request):
        work, step, begin = made(request, ways.unmarked)
    torch.cuda.synchronize()
    ready = round(time.perf_counter() - start, 3)
    loss, moved = float(run_steps(work, step, _COMPARED)), begin.moved()
    count = max(1, min(_MOST, int(_SECONDS / _wall(work, step, _COMPARED))))
    walls = [_wall(work, step, count) for _ in range(_BATCHES)]
    return {
        "wall": walls,
        "submit": [_submit(work, step, number) for number in range(_SUBMITS)],
        "reserved": torch.cuda.max_memory_reserved(),
        "allocated": torch.cuda.max_memory_allocated(),
        "set_up": ready,
        "loss": loss,
        "moved": moved,
    }


def _wall(work: Work, step: Step, count: int) -> float:
    """Return the seconds of a step, over `count` of them between two synchronizations."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    run_steps(work, step, count)
    torch.cuda.synchronize()
    return round((time.perf_counter() - start) / count, 9)


def _submit(work: Work, step: Step, number: int) -> float:
    """Return the seconds until a step returns, with nothing before it on the GPU that it could have to wait for."""
    inputs, target = work.batches[number % workloads.BATCHES]
    torch.cuda.synchronize()
    start = time.perf_counter()
    step(inputs, target)
    return round(time.perf_counter() - start, 9)


@contextlib.contextmanager
def _no_workers(request: dict[str, Any]) -> Any:
    """Compile in this process: its kernels are cached, and processes that wait for work would run beside the steps."""
    if "compile" not in request["way"]:
        yield
        return
    import torch._inductor.config

    with torch._inductor.config.patch({"compile_threads": 1}):
        yield


# Profile --------------------------------------------------------------------------------------------------------------


def profiled(request: dict[str, Any]) -> dict[str, Any]:
    """Profile steps as the blog does; return its totals, and how long the GPU was busy in a step.

    `self_cpu` is seconds of all `steps` of the profile, `busy` and `operations` are of one step.
    """
    with _no_workers(request):
        work, step, _ = made(request, torch.profiler.record_function)
    torch.cuda.synchronize()
    profiler = profile_of(work, step)
    if request["trace"]:
        profiler.export_chrome_trace(request["trace"])
    spans = _spans(work, step)
    return {
        "self_cpu": self_cpu(profiler),
        "busy": round(regions.union(spans) * 1e-9 / _ACTIVE, 9),
        "operations": round(len(spans) / _ACTIVE),
        "steps": _ACTIVE,
    }


def profile_of(work: Work, step: Step) -> Any:
    """Return the profile of ten steps, of which the last seven are recorded, with shapes, memory and stacks."""
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    when = schedule(wait=_WAIT, warmup=_WARM, active=_ACTIVE, repeat=1)
    with profile(activities=activities, schedule=when, record_shapes=True, profile_memory=True, with_stack=True) as profiler:
        for number in range(_WAIT + _WARM + _ACTIVE):
            step(*work.batches[number % workloads.BATCHES])
            profiler.step()
    return profiler


def self_cpu(profiler: Any) -> float:
    """Return the "Self CPU time total" below the profiler's table, in seconds."""
    return round(float(sum(event.self_cpu_time_total for event in profiler.key_averages())) * 1e-6, 9)


def _spans(work: Work, step: Step) -> list[tuple[int, int]]:
    """Return begin and end of each kernel, copy and memset of seven steps, in nanoseconds.

    The profile above would not do: where the host runs ahead of the GPU, it has kernels of the steps before it, too.
    """
    from torch.autograd.profiler import profile

    torch.cuda.synchronize()
    with profile(use_device="cuda", use_kineto=True) as profiler:
        run_steps(work, step, _ACTIVE)
        torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    seen = [
        event
        for event in profiler.kineto_results.events()
        if event.device_type() == cuda and not calibration.annotates(event, _RANGES)
    ]
    return [(event.start_ns(), event.start_ns() + event.duration_ns()) for event in seen]


_RANGES = ("zero_grad", "forward", "loss", "backward", "optimizer", "copy", "replay")
