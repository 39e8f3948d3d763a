"""Are the scaffolded programs as fast as what one would write by hand? On a GPU, with torch and jinja2 (torch brings that).

    python benchmarks/scaffolds.py run > out.json     each workload of workflows.py in a process of its own
    python benchmarks/scaffolds.py keep out.json      back here: becomes benchmarks/evidence/scaffolds.json
    python benchmarks/scaffolds.py                    the table; --check: exit 1 if a program is slower than its peer

No process is profiled before its times are taken. A row is one workload: its model, data and loss are put where a program
says YOURS, as a user would, and the program's graphed step takes turns with the variants of workflows.py on the same model,
data and loss, all with clipping and AdamW. Ours also copies each batch from pinned memory and sets the learning rate.
Microseconds: median, 10th and 90th percentile of 15 rounds. `busy` is the union of the intervals in which the GPU worked
during a replay of ours, profiled last.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools"), str(HERE.parent / "tests")]
EVIDENCE = HERE / "evidence" / "scaffolds.json"
PEERS = {  # how workflows.py calls the way that a program takes
    "make-graphed-callables": "make_graphed",
    "reduce-overhead": "reduce-overhead",
    "manual": "manual",
    "manual-over-compile": "manual over compile",
}
_ROUNDS, _ROUND_SECONDS, _SLOWER = 15, 0.04, 1.02


def prepared(workload: str, way: str, folder: Path) -> Callable[[], Any]:
    """Return the graphed step of the scaffolded program for `way`, with the workload in place of YOURS."""
    import torch
    from cudagraph_skill.scaffold import render, versions
    from cudagraph_skill.scaffold.options import Options

    work = _workload(workload)
    options = Options(way, training=work.optimizer is not None, amp="bf16" if work.autocast else "")
    path = folder / f"{workload}_{way.replace('-', '_')}.py"
    path.write_text(render.program(options, versions.choose([f"torch=={torch.__version__}"], {})), encoding="utf-8")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    program: Any = module_from_spec(spec)
    sys.modules[path.stem] = program  # the compiler looks it up there
    spec.loader.exec_module(program)
    batch = tuple(tensor.cpu().pin_memory() for tensor in work.inputs)
    if work.optimizer is not None:
        batch = (*batch, torch.zeros(1).pin_memory())  # the loss of a workload has its targets already
        program.loss_of = lambda output, _target: work.loss(output)
    program.build_model = work.model.cpu
    program.batches = lambda count: [batch] * count
    run = program.prepare("graph")
    return lambda: run(*batch)


def measured(workload: str, turn: int) -> dict[str, Any]:
    """Time all ways of one workload, ours and the peers', which take turns."""
    import workflows

    fcntl.flock(turn, fcntl.LOCK_SH)
    steps: dict[str, Callable[[], Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for way, peer in PEERS.items():
            steps[f"peer {way}"] = workflows.stepper(_workload(workload), peer)
            steps[f"ours {way}"] = prepared(workload, way, Path(folder))
        steps["eager"] = workflows.stepper(_workload(workload), "eager")
    for step in steps.values():
        for _ in range(15):
            step()
    fcntl.flock(turn, fcntl.LOCK_UN)
    fcntl.flock(turn, fcntl.LOCK_EX)
    times = _in_turns(steps)
    busy = {way: _busy(steps[f"ours {way}"]) for way in PEERS}
    fcntl.flock(turn, fcntl.LOCK_UN)
    return {"workload": workload, "us": times, "busy": busy}


def _workload(name: str) -> Any:
    """Build a workload of workflows.py: trained as the programs train, or called with one input for its output."""
    import torch
    import workflows

    torch.manual_seed(0)
    work = workflows.WORKLOADS[name]()
    if work.optimizer is not None:
        adamw = lambda model: torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)  # noqa: E731
        return work._replace(optimizer=adamw, clip=True)

    class Held(torch.nn.Module):
        """The model with all of its inputs but the first."""

        def __init__(self) -> None:
            super().__init__()
            self.model = work.model
            self.held = [tensor.cuda() for tensor in work.inputs[1:]]

        def forward(self, x: torch.Tensor) -> Any:
            return self.model(x, *self.held)

    return work._replace(model=Held(), inputs=work.inputs[:1], loss=lambda output: output)


def _in_turns(steps: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    import workflows

    counts = {name: max(3, int(_ROUND_SECONDS / workflows.seconds(step, 10))) for name, step in steps.items()}
    rounds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(_ROUNDS):
        for name, step in steps.items():
            rounds[name].append(workflows.seconds(step, counts[name]) * 1e6)
    tenths = {name: statistics.quantiles(times, n=10) for name, times in rounds.items()}
    return {name: [round(cuts[place], 1) for place in (4, 0, 8)] for name, cuts in tenths.items()}


def _busy(step: Callable[[], Any]) -> dict[str, float]:
    """Return the microseconds for which the GPU works in a step, and its operations."""
    from cudagraph_skill.scaffold.guest import verify

    spans = verify.gpu_spans(step, [[]] * 10)
    return {"busy_us": round(verify.union(spans) / 1e4, 1), "nodes": len(spans) / 10}


def _run() -> dict[str, Any]:
    import on_gpu
    import workflows

    with tempfile.NamedTemporaryFile() as turn:
        command = [sys.executable, __file__, "one"]
        jobs = {
            name: subprocess.Popen([*command, name, turn.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for name in workflows.WORKLOADS
        }
        answers = {name: job.communicate() for name, job in jobs.items()}
    rows = [
        json.loads(out.splitlines()[-1]) if jobs[name].returncode == 0 else {"workload": name, "failed": err[-2000:]}
        for name, (out, err) in answers.items()
    ]
    return {**on_gpu.machine("python benchmarks/scaffolds.py run"), "results": rows}


def _table(kept: dict[str, Any]) -> list[str]:
    """Format a line for each workload and way, and what is slower than allowed."""
    lines = [f"{kept['gpus'][0]}; torch {kept['torch']}; {kept['date']}"]
    for row in kept["results"]:
        if "failed" in row:
            continue
        us = row["us"]
        best = min(us[f"peer {way}"][0] for way in PEERS)
        lines.append(f"{row['workload']}: eager {us['eager'][0]} us, best peer {best} us")
        lines += [_line(row, way) for way in PEERS]
    return lines


def _line(row: dict[str, Any], way: str) -> str:
    ours, peer, busy = row["us"][f"ours {way}"], row["us"][f"peer {way}"], row["busy"][way]
    return (
        f"  {way:24} ours {ours[0]} ({ours[1]} to {ours[2]})  peer {peer[0]} ({peer[1]} to {peer[2]})  ours / peer "
        f"{ours[0] / peer[0]:.2f}  over eager {row['us']['eager'][0] / ours[0]:.2f}x  "
        f"wall / busy {ours[0] / busy['busy_us']:.2f} ({busy['nodes']:.0f} nodes)"
    )


def _slower(kept: dict[str, Any]) -> list[str]:
    """List programs slower than the peer of the same way, and workloads whose best program is slower than the best peer."""
    slower = [f"{row['workload']}: {row['failed']}" for row in kept["results"] if "failed" in row]
    for row in kept["results"]:
        us = row.get("us", {})
        pairs = {way: (us[f"ours {way}"][0], us[f"peer {way}"][0]) for way in PEERS if us}
        slower += [f"{row['workload']} {way}: {a} us, peer {b} us" for way, (a, b) in pairs.items() if a > _SLOWER * b]
    return slower


def main() -> None:
    """Run `run` or `keep FILE`, or print the table."""
    what = sys.argv[1:2]
    if what == ["one"]:
        print(json.dumps(measured(sys.argv[2], os.open(sys.argv[3], os.O_RDWR))))
    elif what == ["run"]:
        print(json.dumps(_run(), indent=1))
    elif what == ["keep"] and len(sys.argv) == 3:
        shutil.copy(sys.argv[2], EVIDENCE)
    elif what in ([], ["--check"]):
        kept = json.loads(EVIDENCE.read_text(encoding="utf-8"))
        slower = _slower(kept)
        print("\n".join(_table(kept)))
        print("\n".join(f"slower: {line}" for line in slower))
        sys.exit(1 if what and slower else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
