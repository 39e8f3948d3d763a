"""The programs of tests/hazards and benchmarks/snippets, captured and replayed as in a user's script, with no harness around.

    python tests/plain.py run [ID ...] > out.jsonl    on a GPU machine; IDs such as CG201, 572_mc_dropout_forecast choose some;
                                                      `run --without out.jsonl` those that a run that was cut off did not reach
    python tests/plain.py keep out.jsonl              back here: adds what was seen to tests/evidence/plain.json
    python tests/plain.py differs                     lists what tests/evidence/hazards.json or snippets.json has otherwise

tests/replayed.py has both copies in one process and sets random numbers back between warm-up, capture and replay. Here one
process seeds at its start and calls the function eight times. Another seeds at its start, calls it three times on a side
stream, captures the fourth call, and replays, each time with fresh inputs. Results, state, parameters and buffers are compared
from the fourth call on. The programs of tests/errors need no such run: tests/raised.py calls each `fails()` and `works()` in a
process of its own, and does nothing before or between. Scripts of several GPUs are left out: to them tests/replayed.py adds
only the seed at the start.

Each process is forked from one that has imported torch and left CUDA alone.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import types
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import on_gpu
import replayed

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIDENCE = replayed.ROOT / "tests" / "evidence" / "plain.json"
LABELS = replayed.ROOT / "benchmarks" / "snippets.json"
_WARM_UPS, _REPLAYS = 3, 5  # the first replay has the inputs of the capture
_DEADLINE_SECONDS, _AT_ONCE, _IN_A_PART = 120, 20, 16  # programs of a part: its rows are written when it is done


def programs() -> dict[str, Path]:
    """Return every program by its hazard or by the name of its snippet."""
    snippets = sorted((replayed.ROOT / "benchmarks" / "snippets").glob("*.py"))
    return {**replayed.programs(), **{path.stem: path for path in snippets}}


def functions(path: Path) -> list[str]:
    """List what is run of a program."""
    alone = on_gpu.gpus(replayed.needs(path)) == 1
    return [name for name in replayed.functions(path) or ["make"] if alone or not name.startswith("capture_")]


# In the child ---------------------------------------------------------------------------------------------------------


def _result(way: str, path: str, name: str) -> dict[str, Any]:
    """Run a function one of the ways, `eager` first: it leaves what the others compare with."""
    import torch

    if way == "script":
        return replayed.script(path, name)
    replayed.seed(0)
    case = replayed.loader(path, name)()
    warm_ups = int(case.get("warmup", _WARM_UPS))
    computed = _graphed(case, warm_ups) if way == "graph" else _eager(case, warm_ups)
    if isinstance(computed, Exception):
        return replayed.failed(computed, path)
    if way == "eager":
        torch.save(computed, "eager.pt")
        return {}
    expected = torch.load("eager.pt", weights_only=False)
    compared = replayed.compared([replayed.worst(*pair) for pair in zip(expected, computed, strict=True)])
    rounds = compared.pop("rounds")
    return {**compared, "from": warm_ups + 1 + rounds[0]} if rounds else {"verdict": "safe"}


def _eager(case: dict[str, Any], warm_ups: int) -> list[Any]:
    for _ in range(warm_ups):
        case["fn"](*case["inputs"]())
    return [_kept(case, case["fn"](*case["inputs"]())) for _ in range(_REPLAYS)]


def _graphed(case: dict[str, Any], warm_ups: int) -> list[Any] | Exception:
    """Warm up, capture and replay; return what a capture raises."""
    import torch

    side = torch.cuda.Stream()
    for _ in range(warm_ups):
        arguments = case["inputs"]()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            case["fn"](*arguments)
        torch.cuda.current_stream().wait_stream(side)
    static = case["inputs"]()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = case["fn"](*static)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is the result
        return error
    computed = []
    for replay in range(_REPLAYS):
        if replay:
            replayed.copy_into(static, case["inputs"]())
        graph.replay()
        computed.append(_kept(case, out))
    return computed


def _kept(case: dict[str, Any], out: Any) -> list[Any]:
    """Copy a result, the state, and the parameters and buffers of the modules within reach."""
    import torch

    torch.cuda.synchronize()
    own = [tensor for module in _modules(case["fn"]) for tensor in (*module.parameters(), *module.buffers())]
    held = [*replayed.tensors([out, (case.get("state") or list)()]), *{id(tensor): tensor for tensor in own}.values()]
    return [tensor.detach().cpu().clone() for tensor in held]


def _modules(fn: Any) -> list[Any]:
    """Return the modules that a function reaches through objects, closures and globals of its program."""
    import torch

    met: dict[int, Any] = {}
    waiting = [fn]
    while waiting:
        thing = waiting.pop(0)
        if id(thing) not in met:
            met[id(thing)] = thing
            waiting += _parts(thing)
    return [thing for thing in met.values() if isinstance(thing, torch.nn.Module)]


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, (dict, list, tuple)):
        return list(thing.values() if isinstance(thing, dict) else thing)
    if isinstance(thing, types.MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, functools.partial):
        return [thing.func, thing.args, thing.keywords]
    if isinstance(thing, types.FunctionType):
        names = inspect.getclosurevars(thing)
        return [names.nonlocals, names.globals if thing.__globals__.get("__name__") == "<run_path>" else ()]
    kind = type(thing)
    own = list(vars(kind).values()) if kind.__module__ == "<run_path>" else []  # its methods
    return [*own, *getattr(thing, "__dict__", {}).values()] if own or hasattr(kind, "named_parameters") else []


# In the parent --------------------------------------------------------------------------------------------------------


def _fork(way: str, job: dict[str, Any]) -> int:
    """Run a job one of the ways in a process of its own, which leaves `result.json` in the job's folder."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        os.chdir(job["folder"])
        out = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, out)):
            os.dup2(file, number)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
        Path("result.json").write_text(json.dumps(_result(way, job["path"], job["name"])))
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a child must not go on as a second parent
        traceback.print_exc()
    finally:
        os._exit(1)


def _each(way: str, jobs: list[dict[str, Any]]) -> Iterator[on_gpu.Ended]:
    """Run jobs, several at once; yield them in the order in which they end."""
    waiting, running = list(jobs), dict[int, tuple[dict[str, Any], float]]()
    while waiting or running:
        while waiting and len(running) < _AT_ONCE:
            job = waiting.pop(0)
            running[_fork(way, job)] = job, time.monotonic()
        for child, (job, start) in list(running.items()):
            seconds = time.monotonic() - start
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and seconds < _DEADLINE_SECONDS:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # with the processes that it started
            code = os.waitstatus_to_exitcode(status) if ended else None
            if not ended:
                os.waitpid(child, 0)
            del running[child]
            yield on_gpu.Ended(job, code, round(seconds, 1), (Path(job["folder"]) / "output").read_text(errors="replace"))
        time.sleep(0.01)


def _run_way(way: str, jobs: list[dict[str, Any]]) -> None:
    """Put the result of each job into it."""
    for ended in _each(way, jobs):
        if ended.code == 0:
            ended.job["result"] = json.loads((Path(ended.job["folder"]) / "result.json").read_text())
        else:
            why = f"{way} process ended with {ended.code} after {ended.seconds} s: {ended.output[-400:]}"
            ended.job["result"] = {"verdict": "broken", "error": why.replace(f"{replayed.ROOT}/", "")}


def _run_all(jobs: list[dict[str, Any]]) -> None:
    """Run scripts, and functions eagerly and graphed; where they differ, a second eager run tells whether eager is noisy."""
    scripts = [job for job in jobs if job["name"].startswith("capture_")]
    _run_way("script", scripts)
    pairs = [job for job in jobs if job not in scripts]
    _run_way("eager", pairs)
    _run_way("graph", [job for job in pairs if not job["result"]])
    wrong = [(job, job["result"]) for job in pairs if job["result"]["verdict"] == "silent_wrong"]
    _run_way("again", [job for job, _ in wrong])
    for job, result in wrong:
        job["result"] = result if job["result"]["verdict"] == "safe" else {**result, "verdict": "noisy"}


def _run(chosen: list[str], without: set[str]) -> None:
    """Print what the machine is, then a row for each program."""
    for name in ("torch", "torch._dynamo", "numpy"):  # an optimizer's first step imports the second
        with contextlib.suppress(ImportError):
            import_module(name)
    run = on_gpu.machine("python tests/plain.py run")
    known = {name: path for name, path in programs().items() if name not in without and (not chosen or name in chosen)}
    ready = [name for name, path in known.items() if not on_gpu.lacks(replayed.needs(path)) and functions(path)]
    parts = [ready[first : first + _IN_A_PART] for first in range(0, len(ready), _IN_A_PART)]
    on_gpu.write_rows(run, (row for part in parts for row in _rows({name: known[name] for name in part})))


def _rows(known: dict[str, Path]) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        jobs = [
            {"id": name, "path": str(path), "name": function, "folder": tempfile.mkdtemp(dir=root)}
            for name, path in known.items()
            for function in functions(path)
        ]
        _run_all(jobs)
    for name, path in known.items():
        results = {job["name"]: job["result"] for job in jobs if job["id"] == name}
        yield {"id": name, "digest": replayed.digest(path), "functions": results}


# What was seen --------------------------------------------------------------------------------------------------------


def kept() -> dict[str, dict[str, Any]]:
    """Return the rows of the evidence by program."""
    return {row["id"]: row for run in json.loads(EVIDENCE.read_text()) for row in run["results"]}


def differing() -> dict[str, str]:
    """Return where the plain verdict is not the known one, as `safe, not silent_wrong`, by program and function."""
    known = {f"{name} make": label["verdict"] for name, label in json.loads(LABELS.read_text()).items()}
    rows = [row for run in json.loads(replayed.EVIDENCE.read_text()) for row in run["results"]]
    known |= {f"{row['id']} {name}": result["verdict"] for row in rows for name, result in row["functions"].items()}
    plain = {f"{id_} {name}": result["verdict"] for id_, row in kept().items() for name, result in row["functions"].items()}
    return {place: f"{verdict}, not {known.get(place)}" for place, verdict in plain.items() if verdict != known.get(place)}


def _differs() -> None:
    rows = kept()
    for place, how in differing().items():
        id_, _, name = place.partition(" ")
        details = {key: value for key, value in rows[id_]["functions"][name].items() if key != "verdict"}
        print(f"{place}: {how} {details or ''}")


def main() -> None:
    """Run `run`, `keep FILE` or `differs`."""
    match sys.argv[1:]:
        case ["run", "--without", *files]:
            _run([], {row["id"] for file in files for row in on_gpu.read_rows(file)["results"]})
        case ["run", *chosen]:
            _run(chosen, set())
        case ["keep", file]:
            replayed.add(EVIDENCE, on_gpu.read_rows(file), programs(), lambda _: True)
        case ["differs"]:
            _differs()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
