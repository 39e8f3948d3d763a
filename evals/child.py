"""Run a program, or a submission beside it, in a process of its own. Needs torch and the standard library.

    python evals/child.py eager FOLDER OUT SETTINGS        the program as it is, then several times with moved numbers
    python evals/child.py submission FOLDER OUT SETTINGS   the submission, then its steps timed in turns with the program's

FOLDER has `program.py`, and `solution.py` for the second; SETTINGS is JSON with device, seed, steps, rounds and calls. OUT gets
what each step returned, and `OUT.json` times and memory. The submission never sees what is expected of it: that is made in
another process. Results are kept as they were returned and read at the end, so an output that the next step overwrites is seen.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WARM = 5
MOVED = 6  # runs with moved numbers: the difference of a loss, which is one number, is small by luck in some of them


class Run:
    """A job that goes on with its own random numbers, whoever else draws in between."""

    def __init__(self, module: Any, settings: dict[str, Any]) -> None:
        self.device = torch.device(settings["device"])
        torch.manual_seed(settings["seed"])
        self.job = module.build(self.device)
        torch.manual_seed(settings["seed"] + 1)
        self.random = self._random()
        self.results: list[list[Tensor]] = []

    def _random(self) -> tuple[Tensor, Tensor | None]:
        return torch.get_rng_state(), torch.cuda.get_rng_state() if self.device.type == "cuda" else None

    def __call__(self, data: Sequence[tuple[Any, ...]]) -> float:
        """Make a step for each batch; return the seconds that they took."""
        torch.set_rng_state(self.random[0])
        if self.random[1] is not None:
            torch.cuda.set_rng_state(self.random[1])
        self.wait()
        start = time.perf_counter()
        returned = [self.job.step(*batch) for batch in data]
        self.wait()
        seconds = time.perf_counter() - start
        self.random = self._random()
        self.results += [tensors(result) for result in returned]
        return seconds

    def wait(self) -> None:
        """Wait for the GPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def memory(self) -> int:
        """Return the most bytes that torch held on the GPU; 0 on a CPU."""
        return torch.cuda.max_memory_reserved() if self.device.type == "cuda" else 0

    def state(self) -> dict[str, Tensor]:
        """Return a copy of the state."""
        return {name: value.detach().cpu().clone() for name, value in self.job.state().items() if isinstance(value, Tensor)}


def tensors(result: Any) -> list[Tensor]:
    """Return the tensors of a result, in order; a number counts as one."""
    if isinstance(result, Tensor):
        return [result.detach()]
    if isinstance(result, (int, float)):
        return [torch.tensor(result)]
    if isinstance(result, dict):
        return [tensor for name in sorted(result) for tensor in tensors(result[name])]
    return [tensor for part in result or () for tensor in tensors(part)]


def move(run: Run, precision: torch.dtype, seed: int) -> None:
    """Change each number of the state by one unit in the last place, up or down."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in run.job.state().values():
            if isinstance(value, Tensor) and value.is_floating_point():
                up = torch.randint(2, value.shape, generator=generator).to(value.device, value.dtype)
                value.mul_(1 + max(torch.finfo(precision).eps, torch.finfo(value.dtype).eps) * (2 * up - 1))


@contextlib.contextmanager
def rounding(sign: int) -> Iterator[None]:
    """Move the rate of every optimizer by as much as float32 does in one that a graph can hold.

    Such an optimizer keeps its rate and the number of the step in tensors. It takes `1 - beta2**step` in float32, where beta2
    is off by up to 2**-25: by that divided by 1 - beta2 at the first step, in the same direction in each step. The update has
    the root of it. Eager takes it in Python.
    """
    kept: list[tuple[dict[str, Any], Any]] = []

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            kept.append((group, group["lr"]))
            group["lr"] = group["lr"] * (1 + sign * (2**-24 + 2**-26 / (1 - max(group.get("betas", (0,))))))

    def after(*_: Any) -> None:
        while kept:
            group, rate = kept.pop()
            group["lr"] = rate

    hooks = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def imported(folder: Path, name: str, alias: str) -> Any:
    """Return a module of the folder under another name, so that two copies of it share nothing."""
    spec = importlib.util.spec_from_file_location(alias, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018 - it is a Python file
    module = sys.modules[alias] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def eager(module: Any, settings: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run the program as it is, then as often as its tolerance needs; return the results of each run, and memory."""
    steps = settings["steps"]
    data = module.batches(steps + settings["rounds"] * settings["calls"], settings["seed"])
    kept: list[dict[str, Any]] = []
    memory = 0
    for number in range(1 + MOVED):
        run = Run(module, settings)
        if number:
            move(run, getattr(module, "PRECISION", torch.float32), number)
        with rounding((-1) ** number) if number else contextlib.nullcontext():
            run(data[:steps])
            state = run.state()
            memory = memory or run.memory()  # of the first run
            run(data[steps:])
        kept.append({"state": state, "results": _read(run)})
        del run
    return kept, {"memory": memory}


def submission(folder: Path, module: Any, settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the submission, then time it in turns with the program; return results, and times and memory."""
    steps, calls = settings["steps"], settings["calls"]
    data = module.batches(steps + settings["rounds"] * calls, settings["seed"])
    begin = time.perf_counter()
    run = Run(importlib.import_module("solution"), settings)
    run(data[:1])
    first = time.perf_counter() - begin
    run(data[1:steps])
    kept, memory = run.state(), run.memory()
    beside = Run(imported(folder, "program", "_program_to_time"), settings)
    beside(data[: max(_WARM, min(steps, calls))])
    times: dict[str, list[float]] = {"seconds": [], "eager": []}
    for start in range(steps, len(data), calls):
        times["eager"].append(beside(data[start : start + calls]) / calls)
        times["seconds"].append(run(data[start : start + calls]) / calls)
    return {"state": kept, "results": _read(run)}, {"memory": memory, "first": first, **times}


def _read(run: Run) -> list[list[Tensor]]:
    return [[tensor.cpu() for tensor in result] for result in run.results]


def main() -> int:
    """Run what the command line names."""
    way, folder, out, given = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve(), json.loads(sys.argv[4])
    sys.path[0] = str(folder)  # in the place of our own
    sys.argv = ["program.py"]
    torch.set_num_threads(1)
    module = imported(folder, "program", "_program")
    kept, said = eager(module, given) if way == "eager" else submission(folder, module, given)
    torch.save(kept, out)
    gpu = torch.cuda.get_device_name() if given["device"] == "cuda" else "cpu"
    out.with_suffix(".json").write_text(json.dumps({**said, "gpu": gpu, "torch": torch.__version__}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # without the end of communicators and graphs, which may wait for each other
