"""The programs of tests/hazards and benchmarks/snippets, captured and replayed on a GPU beside an eager copy.

    python tests/replayed.py run [ID ...] > out.json     on a GPU machine, with torch and the standard library only
    python tests/replayed.py keep out.json               back here: adds what was seen to tests/evidence/hazards.json
    python tests/replayed.py label DIR > labels.json     on a GPU machine: the verdict of each file of a folder with `make()`

A file of tests/hazards has functions `bad_*` and `good_*`, captured as `fn(*inputs())`, and scripts `capture_bad_*` and
`capture_good_*` that capture on their own and return whether the replay was right. The module is loaded twice with equal
seeds: one copy runs eagerly; the other is warmed up on a side stream, captured once, and then replayed on new inputs.

Between the two, random numbers are set back. The CUDA generator is not seeded for that: cuDNN would make its dropout state
anew. The process has one such state, so the dropout of recurrent layers differs between the copies. tests/plain.py runs the
same programs with no harness around them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import on_gpu

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "hazards"
EVIDENCE = ROOT / "tests" / "evidence" / "hazards.json"
_ROUNDS, _WARM_UPS, _DEADLINE_SECONDS = 4, 3, 150
_TOLERANCE = 2e-2  # of the mean
_MARK = "RESULT "


def programs() -> dict[str, Path]:
    """Return every program by its hazard."""
    return {path.name[:5].upper(): path for path in sorted(PROGRAMS.glob("cg*.py"))}


def functions(path: Path) -> list[str]:
    """List the captured functions and the scripts of a program."""
    return re.findall(r"^def ((?:capture_)?(?:bad|good)_\w+)\(", path.read_text(), re.MULTILINE)


def needs(path: Path) -> str:
    """Read the requirements of a program, "" for one GPU and torch 2.11."""
    match = re.search(r"^# needs: (.+)$", path.read_text(), re.MULTILINE)
    return match[1].strip() if match else ""


def digest(path: Path) -> str:
    """Return a hash of the program."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# In the child ---------------------------------------------------------------------------------------------------------


def seed(number: int) -> None:
    """Seed every generator, as a program does at its start."""
    import torch

    _set_back(number)
    torch.manual_seed(number)


def _set_back(number: int) -> None:
    """Give every generator the numbers of a seed; those of the GPUs are not seeded."""
    import torch

    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)
    torch.default_generator.manual_seed(number)
    for generator in torch.cuda.default_generators:
        # Another generator that shares the state: seeding a generator itself tells cuDNN to make its dropout state anew.
        generator.graphsafe_get_state().manual_seed(number)


def tensors(value: Any) -> list[Any]:
    """List the tensors of a result, with its numbers as tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value.detach()]
    if isinstance(value, (int, float, bool)):
        return [torch.tensor(float(value))]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors(item)] if isinstance(value, (list, tuple)) else []


def worst(eager: Any, graph: Any) -> float:
    """Return the largest relative difference; infinite if the structures differ."""
    import torch

    pairs = tensors(eager), tensors(graph)
    if len(pairs[0]) != len(pairs[1]):
        return float("inf")
    largest = 0.0
    for tensor, other in zip(*pairs, strict=True):
        if tensor.is_sparse or tensor.layout != torch.strided:
            tensor, other = tensor.to_dense(), other.to_dense()  # noqa: PLW2901
        a, b = tensor.double().cpu(), other.double().cpu()
        if a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
            return float("inf")
        if a.numel():
            scale = 1e-3 + a.nan_to_num().abs().mean().item()
            largest = max(largest, (a - b).nan_to_num().abs().max().item() / scale)
    return largest


class Copy:
    """One of the two: the captured function, what gives its inputs, its state."""

    def __init__(self, load: Callable[[], dict[str, Any]]) -> None:
        seed(0)
        case = load()
        self.fn, self.inputs, self.state = case["fn"], case["inputs"], case.get("state") or (list)
        self.warm_ups = int(case.get("warmup", _WARM_UPS))


def _verdict(path: str, name: str) -> dict[str, Any]:
    """Capture and compare: safe, capture_error with its lines, or silent_wrong with the rounds that differ."""
    import torch

    eager, graph = (Copy(loader(path, name)) for _ in range(2))
    side = torch.cuda.Stream()
    for number in range(eager.warm_ups):
        for copy in (eager, graph):
            _set_back(1000 + number)
            arguments = copy.inputs()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side if copy is graph else torch.cuda.current_stream()):
                copy.fn(*arguments)
            torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    _set_back(1500)
    eager.inputs()
    _set_back(1500)
    static = graph.inputs()
    captured = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(captured):
            out = graph.fn(*static)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the result
        return failed(error, path)
    differences = []
    for number in range(_ROUNDS):
        _set_back(2000 + number)
        expected = eager.fn(*eager.inputs())
        _set_back(2000 + number)
        for old, new in zip(static, graph.inputs(), strict=True):
            copy_into(old, new)
        captured.replay()
        torch.cuda.synchronize()
        differences.append(max(worst(expected, out), worst(eager.state(), graph.state())))
    return compared(differences)


def compared(differences: list[float]) -> dict[str, Any]:
    """Return the verdict on the differences of the rounds."""
    wrong = [place for place, difference in enumerate(differences) if difference > _TOLERANCE]
    return {
        "verdict": "silent_wrong" if wrong else "safe",
        "rounds": wrong,
        "worst": [round(min(difference, 1e9), 6) for difference in differences],
    }


def copy_into(old: Any, new: Any) -> None:
    """Copy new arguments into the static ones."""
    import torch

    if isinstance(old, torch.Tensor):
        with torch.no_grad():
            old.copy_(new)
    elif isinstance(old, (list, tuple)):
        for target, other in zip(old, new, strict=True):
            copy_into(target, other)
    elif isinstance(old, dict):
        for key in old:
            copy_into(old[key], new[key])


def failed(error: BaseException, path: str) -> dict[str, Any]:
    """Describe the innermost error of a chain, with its lines in the program's own file."""
    while error.__context__ is not None:
        error = error.__context__
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(path.rsplit("/", 1)[-1])]
    return {"verdict": "capture_error", "lines": lines, "error": f"{type(error).__name__}: {error}".split("\n")[0][:200]}


def loader(path: str, name: str) -> Callable[[], dict[str, Any]]:
    """Return what loads a function of tests/hazards, or the `make` of a snippet, with its inputs and state."""

    def load() -> dict[str, Any]:
        module = runpy.run_path(path)
        if name == "make":
            return dict(module["make"]("cuda"))
        return {
            "fn": module[name],
            "inputs": module.get(f"inputs_{name}") or module.get("inputs") or (lambda: ()),
            "state": module.get("state"),
        }

    return load


def _child(path: str, name: str) -> None:
    if "LOCAL_RANK" in os.environ:
        import torch

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    result = script(path, name) if name.startswith("capture_") else _verdict(path, name)
    print(_MARK + json.dumps(result), flush=True)
    os._exit(0)


def script(path: str, name: str) -> dict[str, Any]:
    """Run a script, which captures on its own."""
    seed(0)
    module = runpy.run_path(path)
    try:
        right = module[name]()
    except Exception as error:  # noqa: BLE001
        return failed(error, path)
    return {"verdict": "safe" if right else "silent_wrong"}


# In the parent --------------------------------------------------------------------------------------------------------


def _result(ended: on_gpu.Ended) -> dict[str, Any]:
    decode = json.JSONDecoder().raw_decode  # the line of another rank, or of the program, may follow without a line end
    results = [decode(part)[0] for part in ended.output.split(_MARK)[1:]]
    if not results:
        return {"verdict": "broken", "error": ended.output.replace(str(ROOT), "")[-600:], "code": ended.code}
    worst = max(results, key=lambda result: ["safe", "silent_wrong", "capture_error"].index(result["verdict"]))
    return dict(worst)


def _run_all(jobs: list[dict[str, Any]]) -> None:
    """Run each job's function in a process of its own, and put its result into the job."""

    def command(job: dict[str, Any], _: Path) -> list[str]:
        ranks = job["needs"] if job["name"].startswith("capture_") else ""  # only scripts talk to other ranks
        return on_gpu.python(ranks, str(Path(__file__).resolve()), "call", job["path"], job["name"])

    ready = [job for job in jobs if not on_gpu.lacks(job["needs"])]
    several = [job for job in ready if on_gpu.gpus(job["needs"]) > 1]
    for group, at_once in (([job for job in ready if job not in several], 14), (several, 3)):
        for ended in on_gpu.each(group, command, _DEADLINE_SECONDS, at_once):
            ended.job["result"] = _result(ended)


def _run(chosen: list[str]) -> dict[str, Any]:
    known = {name: path for name, path in programs().items() if not chosen or name in chosen}
    jobs = [
        {"id": name, "path": str(path), "name": function, "needs": needs(path)}
        for name, path in known.items()
        for function in functions(path)
    ]
    _run_all(jobs)
    rows = [
        {
            "id": name,
            "digest": digest(path),
            "needs": needs(path),
            "functions": {job["name"]: job["result"] for job in jobs if job["id"] == name and "result" in job},
        }
        for name, path in known.items()
    ]
    return {**on_gpu.machine("python tests/replayed.py run"), "results": rows}


def _label(folder: Path) -> dict[str, Any]:
    jobs = [
        {"path": str(path), "name": "make", "needs": "", "file": path.name} for path in sorted(folder.resolve().glob("*.py"))
    ]
    _run_all(jobs)
    return {**on_gpu.machine("python tests/replayed.py label"), "results": {job["file"]: job["result"] for job in jobs}}


WANTED = {"error": "capture_error", "warning": "silent_wrong", "info": "safe"}


def seen(severity: str, row: dict[str, Any]) -> list[str]:
    """List the functions of a program whose verdict contradicts its hazard, as `function: verdict`."""
    wrong = []
    for name, result in row["functions"].items():
        wanted = WANTED[severity] if "bad_" in name else "safe"
        if result["verdict"] != wanted:
            wrong.append(f"{name}: {result['verdict']}")
    return wrong or ([] if row["functions"] else ["not run"])


def _keep(run: dict[str, Any]) -> None:
    from cudagraph_skill.check import hazards

    add(EVIDENCE, run, programs(), lambda row: not seen(hazards.hazard(row["id"]).severity, row))


def add(evidence: Path, run: dict[str, Any], known: dict[str, Path], shows: Callable[[dict[str, Any]], bool]) -> None:
    """Add a run to the evidence: a program keeps its newest result that shows what it is to show; a changed one loses it."""
    current = {name: digest(path) for name, path in known.items()}
    runs = [*(json.loads(evidence.read_text()) if evidence.exists() else []), run]
    taken: set[str] = set()
    for kept_run in reversed(runs):
        rows = [row for row in kept_run["results"] if current.get(row["id"]) == row["digest"] and row["id"] not in taken]
        kept_run["results"] = [row for row in rows if shows(row)]
        taken |= {row["id"] for row in kept_run["results"]}
    evidence.write_text(json.dumps([kept_run for kept_run in runs if kept_run["results"]], indent=1) + "\n")
    print(f"{len(taken)} seen; not seen: {', '.join(sorted(set(current) - taken)) or 'none'}", file=sys.stderr)


def main() -> None:
    """Run `run [ID ...]`, `keep FILE`, `label DIR` or, in a child process, `call FILE FUNCTION`."""
    if sys.argv[1:2] == ["run"]:
        print(json.dumps(_run(sys.argv[2:]), indent=1))
    elif sys.argv[1:2] == ["keep"] and len(sys.argv) == 3:
        _keep(json.loads(Path(sys.argv[2]).read_text()))
    elif sys.argv[1:2] == ["label"] and len(sys.argv) == 3:
        print(json.dumps(_label(Path(sys.argv[2])), indent=1))
    elif sys.argv[1:2] == ["call"] and len(sys.argv) == 4:
        _child(*sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
