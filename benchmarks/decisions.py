"""Whether what `skill decide` says of a call comes true: the predicted time of one graph, the limit, and the verdict.

    python benchmarks/decisions.py run [NAME ...] > out.jsonl   on a GPU machine that does nothing else, with the libraries
    python benchmarks/decisions.py keep FILE ...                back here: adds the rows to benchmarks/evidence/decisions.json
    python benchmarks/decisions.py                              the figures of that evidence; --misses names what was wrong
    python benchmarks/decisions.py --check                      exit 1 if one is out of its bound, or a case changed

The workloads are cases of benchmarks/library, those of benchmarks/workflows.py, and some that keep the GPU busy. A process of
its own, which has nothing of our tools, times eager calls and replays in turns, before any profiler (maps.py). The prediction
is made from eager calls alone, in another process; nothing in it was fitted to these workloads. A graph is the best way where
it is at least 1.1 times as fast as eager.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests"), str(HERE)]

import library  # noqa: E402
import on_gpu  # noqa: E402
from cudagraph_skill.capture import cost  # noqa: E402

EVIDENCE = HERE / "evidence" / "decisions.json"
_LIBRARY = (
    "001", "004", "008", "009", "012", "014", "015", "022", "026", "048", "053", "058", "060", "062", "090", "099", "106",
    "117", "118", "120",
)  # fmt: skip
_SECONDS, _GAIN, _NEAR = 200, 1.1, 0.06


# The workloads that are not in benchmarks/library: made by `--make` of the tool ----------------------------------------


def _workflow(name: str) -> dict[str, Any]:
    import workflows

    return {"fn": workflows.stepper(workflows.WORKLOADS[name](), "eager"), "inputs": ()}


def mlp() -> dict[str, Any]:
    """Make a training step of a multilayer perceptron."""
    return _workflow("mlp")


def decode() -> dict[str, Any]:
    """Make one token through a decoder."""
    return _workflow("decode")


def gpt() -> dict[str, Any]:
    """Make a training step of a GPT."""
    return _workflow("gpt")


def actor_critic() -> dict[str, Any]:
    """Make an update of two small networks."""
    return _workflow("actor_critic")


def wide_mlp() -> dict[str, Any]:
    """Make a training step of a wide perceptron, which keeps the GPU busy."""
    import torch

    layers = [torch.nn.Linear(4096, 4096) for _ in range(6)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(2, 4096, 4096, device="cuda")

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": ()}


def convolutions() -> dict[str, Any]:
    """Make a forward pass of wide convolutions on large images in half precision."""
    import torch

    layers = [torch.nn.Conv2d(64 if n else 3, 64, 3, padding=1) for n in range(8)]
    model = torch.nn.Sequential(*layers).cuda().half().eval()
    image = torch.randn(32, 3, 256, 256, device="cuda", dtype=torch.float16)

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def forward() -> Any:
        return model(image)

    return {"fn": forward, "inputs": ()}


def attention() -> dict[str, Any]:
    """Make attention over long sequences with a projection."""
    import torch
    from torch.nn import functional

    query, key, value = torch.randn(3, 4, 16, 8192, 64, device="cuda", dtype=torch.bfloat16)

    def attend() -> Any:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True).sum(-1)

    return {"fn": attend, "inputs": ()}


OWN: dict[str, Callable[[], dict[str, Any]]] = {
    made.__name__: made for made in (mlp, decode, gpt, actor_critic, wide_mlp, convolutions, attention)
}


# The run --------------------------------------------------------------------------------------------------------------


def _command(name: str) -> list[str]:
    target = [str(Path(__file__)), "--make", name] if name in OWN else [str(library.cases([name])[0])]
    return [sys.executable, "tools/decide.py", "--json", "--deadline", "150", *target]


def _plain(name: str) -> dict[str, Any]:
    """Time eager calls and replays in this process, which has nothing of our tools."""
    import maps
    import torch

    if name not in OWN:
        return maps.timed(*maps.made(name))
    torch.manual_seed(0)
    fn = OWN[name]()["fn"]
    for _ in range(5):
        fn()
    return maps.timed(fn, ())


def answer_of(command: list[str], seconds: int = _SECONDS) -> str:
    """Return the last line that a command prints, or its errors as JSON."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return json.dumps({"error": f"not done after {seconds} s"})
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else json.dumps({"error": done.stderr[-500:]})


def digest(name: str) -> str:
    """Return a hash of what a workload is."""
    if name not in OWN:
        return library.digest(library.cases([name])[0])
    source = inspect.getsource(OWN[name]) + (HERE / "workflows.py").read_text(encoding="utf-8")
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _row(name: str) -> dict[str, Any]:
    answer = json.loads(answer_of(_command(name)).replace(f"{ROOT}/", ""))
    plain = json.loads(answer_of([sys.executable, __file__, "plain", name]))
    seconds = [(step["name"], step["seconds"]) for step in answer.get("ladder", [])]
    return {
        "id": name,
        "digest": digest(name),
        "checked": answer.get("verdict"),
        "summary": answer.get("summary") or answer.get("error"),
        "decision": answer.get("decision"),
        "ladder": seconds,
        "plain": plain,
    }


def keep(files: Iterable[str], evidence: Path = EVIDENCE) -> None:
    """Add runs to the evidence: each workload keeps its newest row, with its machine."""
    runs = json.loads(evidence.read_text(encoding="utf-8")) if evidence.exists() else []
    runs += [on_gpu.read_rows(file, "rows") for file in files]
    taken: set[str] = set()
    for run in reversed(runs):
        run["rows"] = [row for row in run["rows"] if row["id"] not in taken]
        taken |= {row["id"] for row in run["rows"]}
    evidence.write_text(json.dumps([run for run in runs if run["rows"]], indent=1) + "\n", encoding="utf-8")


# The figures ----------------------------------------------------------------------------------------------------------


def rows() -> list[dict[str, Any]]:
    """Return the rows of the evidence that have a decision."""
    kept = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    return [row for run in kept for row in run["rows"] if row["decision"]]


def off(row: dict[str, Any]) -> float | None:
    """Return by how much the prediction is above (below: negative) the replays of the plain process, as a part of them."""
    graph, predicted = row["plain"].get("graph"), _cost(row).predicted
    return float(predicted / graph["median"] - 1) if graph and predicted else None


def is_right(row: dict[str, Any]) -> bool:
    """Return whether the verdict is that of the plain process: a graph where it is at least 1.1 times as fast."""
    graph, eager = row["plain"].get("graph"), row["plain"]["eager"]["median"]
    best = "graph" if graph and eager >= _GAIN * graph["median"] else "eager"
    return bool((row["decision"]["verdict"] == "graph") == (best == "graph"))


def within(row: dict[str, Any]) -> bool:
    """Return whether the replays of the plain process lie in the range of the prediction."""
    again = _cost(row).within
    return again is not None and bool(again[0] <= row["plain"]["graph"]["median"] <= again[1])


def _cost(row: dict[str, Any]) -> cost.Cost:
    """Return the cost of a row, of which the tool as it is makes its prediction."""
    eager = row["decision"]["now"]["median"]
    return cost.Cost(cost.Times(eager, 0.0, 0.0), 0.0, None, None, None, _kernels(row["decision"]["kernels"]), None)


def _kernels(row: dict[str, Any]) -> cost.Kernels:
    """Return what a row kept of a call; those of an earlier tool know no other path under capture."""
    return cost.Kernels(**{"captured_busy": row["busy"], "captured_nodes": row["nodes"], **row})


def figures(given: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how good predictions, limits and verdicts are."""
    known = [(abs(far), row) for row in given if (far := off(row)) is not None]
    limits = [row for row in given if row["decision"]["limit"]]
    return {
        "workloads": len(given),
        "predicted": len(known),
        "off by, median": round(statistics.median(far for far, _ in known), 3),
        "off by, worst": round(max(far for far, _ in known), 3),
        "off by at most 6 %": sum(far <= _NEAR for far, _ in known),
        "in the range": sum(within(row) for _, row in known),
        "verdict right": sum(map(is_right, given)),
        "limits above the busy time": sum(
            row["decision"]["limit"]["seconds"] > row["decision"]["kernels"]["busy"] for row in limits
        ),
    }


def misses(given: list[dict[str, Any]]) -> list[str]:
    """Return a line for each workload, the largest error first."""
    lines = []
    for row in sorted(given, key=lambda row: -abs(off(row) or 0)):
        graph, decision = row["plain"].get("graph") or {}, row["decision"]
        lines.append(
            f"{row['id']:14} {decision['verdict']:7} {'right' if is_right(row) else 'WRONG'}  "
            f"off {100 * (off(row) or 0):+5.1f} %  "
            f"plain {1e6 * row['plain']['eager']['median']:8.0f} -> {1e6 * graph.get('median', 0):8.0f} us, "
            f"limit {1e6 * (decision['limit'] or {}).get('seconds', 0):8.1f} us, {decision['said']}"
        )
    return lines


def below(found: dict[str, Any]) -> list[str]:
    """Return what of the figures is out of its bound."""
    bounds = {
        "off by at most 6 %": found["off by at most 6 %"] >= 10,
        "verdict right": found["verdict right"] >= found["workloads"] - 1,
        "limits above the busy time": found["limits above the busy time"] == 0,
    }
    return [f"{name}: {found[name]}" for name, holds in bounds.items() if not holds]


def main() -> int:
    """Run `run`, `plain` or `keep`, or print the figures."""
    match sys.argv[1:]:
        case ["run", *names]:
            machine = on_gpu.machine(" ".join(["python benchmarks/decisions.py run", *names]))
            on_gpu.write_rows(machine, map(_row, names or (*OWN, *_LIBRARY)))
            return 0
        case ["plain", name]:
            print(json.dumps(_plain(name)))
            return 0
        case ["keep", *files]:
            keep(files)
            return 0
    given = rows()
    found = figures(given)
    for name, value in found.items():
        print(f"{name:28} {value}")
    changed = [f"not run as it is now: {row['id']}" for row in given if row["digest"] != digest(row["id"])]
    for line in (misses(given) if "--misses" in sys.argv else []) + below(found) + changed:
        print(line)
    return int("--check" in sys.argv and bool(below(found) or changed))


if __name__ == "__main__":
    sys.exit(main())
