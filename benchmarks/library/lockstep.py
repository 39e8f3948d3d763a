"""Calls of one case from a seed, eager or replayed from a graph, and what came of them.

    python lockstep.py FILE {eager,again,moved,graph} TARGET      writes a dict to TARGET: results, held, error

Written as one would by hand, with torch alone: three calls on a side stream, the capture, a replay, and for each further replay
new arguments copied into the first. Nothing is seeded or restored in between.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import random
import re
import sys
import traceback
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CALLS, WARM = 10, 3
_PLAIN = (str, bytes, int, float, type, types.ModuleType, type(None))


def made(path: Path) -> dict[str, Any]:
    """Seed everything once and make the case."""
    random.seed(0)
    importlib.import_module("numpy").random.seed(0)
    torch.manual_seed(0)
    spec = importlib.util.spec_from_file_location("case", path)
    if not spec or not spec.loader:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["case"] = module
    spec.loader.exec_module(module)
    case: dict[str, Any] = module.make("cuda")
    return case


def eager(case: dict[str, Any], stage: list[str], moved: Any = None) -> Iterator[dict[str, Any]]:
    """Yield the results of all calls; with a generator, their arguments are moved."""
    for call in range(CALLS):
        stage[0] = f"call {call + 1}"
        arguments = case["inputs"]()
        move(tensors(arguments).values(), moved)
        yield copied(tensors(case["fn"](*arguments)))


def replayed(case: dict[str, Any], stage: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the results of the calls before the capture, then those of the replays."""
    side = torch.cuda.Stream()
    stage[0] = "warm-up"
    for _ in range(WARM):
        arguments = case["inputs"]()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            result = case["fn"](*arguments)
        torch.cuda.current_stream().wait_stream(side)
        yield copied(tensors(result))
    static = case["inputs"]()
    graph = torch.cuda.CUDAGraph()
    stage[0] = "capture"
    with torch.cuda.graph(graph):
        result = case["fn"](*static)
    stage[0] = "replay"
    for call in range(WARM, CALLS):
        if call > WARM:
            fresh = tensors(case["inputs"]())
            with torch.no_grad():
                for name, tensor in tensors(static).items():
                    tensor.copy_(fresh[name])
        graph.replay()
        yield copied(tensors(result))


def move(given: Iterable[Any], generator: Any) -> None:
    """Change the last place of floating numbers, up or down; nothing without a generator."""
    for tensor in given:
        if generator is None or not tensor.is_floating_point():
            continue
        sign = torch.randint(0, 2, tensor.shape, generator=generator, device=tensor.device) * 2 - 1
        with torch.no_grad():
            tensor.mul_(1 + sign * torch.finfo(tensor.dtype).eps)


def tensors(held: Any) -> dict[str, Any]:
    """Return the tensors on the GPU that are in an object, by path: in containers, attributes, closures, bound methods."""
    found: dict[str, Any] = {}
    _walk(held, "", found, set())
    return found


def _walk(held: Any, path: str, found: dict[str, Any], met: set[int]) -> None:
    if isinstance(held, _PLAIN) or id(held) in met:
        return
    met.add(id(held))
    if isinstance(held, torch.Tensor):
        if held.is_cuda and held.layout == torch.strided:
            found[path] = held
        return
    for name, part in _parts(held):
        _walk(part, f"{path}.{name}", found, met)


def _parts(held: Any) -> list[tuple[str, Any]]:
    """Return what an object holds, with names."""
    if isinstance(held, dict):
        items = list(held.items())
        return [(key if isinstance(key, str) else str(place), part) for place, (key, part) in enumerate(items)]
    if isinstance(held, (list, tuple)):
        return [(str(place), part) for place, part in enumerate(held)]
    if isinstance(held, types.MethodType):
        return [("__self__", held.__self__), ("__func__", held.__func__)]
    if isinstance(held, functools.partial):
        return [("func", held.func), ("args", held.args), ("keywords", held.keywords)]
    cells = getattr(held, "__closure__", None) or ()
    names = held.__code__.co_freevars if cells else ()
    closure = [(name, cell.cell_contents) for name, cell in zip(names, cells, strict=True) if cell != types.CellType()]
    return [*closure, *dict(getattr(held, "__dict__", {})).items()]


def copied(given: dict[str, Any]) -> dict[str, Any]:
    """Return copies on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in given.items()}


def described(error: BaseException, path: Path) -> dict[str, Any]:
    """Return type, message, line of the case and deepest frame of the error that came first."""
    chain = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) is not None and earlier not in chain:
        chain.append(earlier)
    stacks = [traceback.extract_tb(each.__traceback__) for each in chain]
    lines = [frame.lineno for stack in stacks for frame in stack if frame.filename == str(path)]
    last = next(stack[-1] for stack in reversed(stacks) if stack)
    file = re.sub(r".*(?:site|dist)-packages/", "", last.filename)
    said = {"type": type(chain[-1]).__name__, "said": str(chain[-1])[:200]}
    return {**said, "line": lines[-1] if lines else None, "deepest": f"{file}:{last.lineno} {last.name}"}


def observe(path: Path, way: str) -> dict[str, Any]:
    """Run the case; return the results of its calls and what `fn` holds afterwards, or how it failed."""
    stage = ["make"]
    try:
        case = made(path)
        moved = torch.Generator("cuda").manual_seed(1) if way == "moved" else None
        move((tensor for tensor in tensors(case["fn"]).values() if isinstance(tensor, torch.nn.Parameter)), moved)
        results = list(replayed(case, stage) if way == "graph" else eager(case, stage, moved))
        torch.cuda.synchronize()
        return {"results": results, "held": copied(tensors(case["fn"])), "error": None}
    except BaseException as error:  # noqa: BLE001 - whatever ends the case is the answer
        return {"results": [], "held": {}, "error": {"stage": stage[0], **described(error, path)}}


if __name__ == "__main__":
    target = Path(sys.argv[3])
    torch.save(observe(Path(sys.argv[1]), sys.argv[2]), target.with_suffix(".part"))
    target.with_suffix(".part").replace(target)
    os._exit(0)  # a context that a failed capture has spoilt may not end by itself
