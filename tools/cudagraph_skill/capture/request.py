"""What is captured, and how: a request, as the guest reads it, and the command that does the same without a graph."""

from __future__ import annotations

import ast
import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from cudagraph_skill.capture.torchrun import TORCHRUN
from cudagraph_skill.check.input.source import read_source
from cudagraph_skill.check.input.targets import split
from cudagraph_skill.errors import SkillError

_MODULE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d][\w.]*)$")
COMPILER = ["torch._dynamo", "torch._functorch.aot_autograd"]  # what of the compiler can be imported without opening the GPU


class Launch(NamedTuple):
    """How torchrun starts the ranks of a program: its own options, and those of the interpreter of each rank."""

    options: tuple[str, ...]
    flags: tuple[str, ...]


class Way(NamedTuple):
    """One way of calling a target, by its name in guest/ways.py, and what to do with it.

    `task` is `import` (no more than that), `compare` (with eager calls), `compile` (its kernels, so that later processes find
    them), or `time`. `compiles` is whether torch.compile has a part in it, `draws` whether a call may draw random numbers.
    `turns` is a file by whose lock each process is timed while all others wait. `modules` are the paths of those that get
    graphs; none: the outermost. `threads` are those of the CPU that a comparison may use beside others, 0 for all.
    """

    name: str
    task: str
    compiles: bool
    turns: str
    draws: bool = True
    modules: tuple[str, ...] = ()
    threads: int = 0


class Request(NamedTuple):
    """What to capture, and how.

    `target` is FILE, FILE:FUNCTION or pkg.mod:NAME, or NAME in a `program`; `inputs` and `make` name functions beside it,
    `shapes` describe its arguments; `warmup` is the number of calls before the capture, or None. `python` is the interpreter,
    `folder` where it runs. `deadline` is in seconds, `memory` a bound in bytes, 0 for none. `program` is a command, after the
    interpreter and its `flags`, whose own call of `target` is captured instead; with `go_on` it runs on after that, and the
    first `skip` calls stay eager. `launch` runs it under torchrun, and checks that call on each rank. `measure` names a module
    of the guest that does more than the check: `mapping` of its regions, `costs` as it is and as a graph, or `ways`, of which
    `way` is one.
    """

    target: str
    python: str
    folder: str
    inputs: str = ""
    make: str = ""
    shapes: tuple[str, ...] = ()
    warmup: int | None = None
    deadline: float = 120
    memory: int = 0
    flags: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    go_on: bool = False
    skip: int | None = None
    launch: Launch | None = None
    measure: str = ""
    way: Way | None = None


def to_guest(request: Request) -> dict[str, Any]:
    """Return the request as the guest reads it.

    Raises:
        SkillError: the target's file is not there.
    """
    wire: dict[str, Any] = {
        "inputs": request.inputs,
        "make": request.make,
        "shapes": list(request.shapes),
        "warmup": request.warmup,
        "deadline": request.deadline,
        "measure": request.measure,
    }
    if request.way:
        wire |= {"way": request.way._asdict(), "imports": COMPILER if request.way.compiles else []}
    if request.program:
        live: dict[str, Any] = {"target": in_program(request), "go_on": request.go_on, "skip": request.skip}
        if request.launch:
            live["launch"] = request.launch._asdict()
        return {**wire, **live, "shown": shlex.join(request.program)}
    path, module, name = locate(request.target)
    return {**wire, "file": os.path.realpath(path) if path else "", "module": module, "name": name, "shown": path or module}


def in_program(request: Request) -> str:
    """Return the watched function as FILE:NAME or pkg.mod:NAME; a bare NAME is one of the script itself."""
    if ":" in request.target:
        return request.target
    main = request.program[1] if request.program[0] == "-m" else request.program[0]
    return f"{main}:{request.target}"


def locate(target: str) -> tuple[str, str, str]:
    """Return the file as the user wrote it, or the dotted module, and the name in it.

    Raises:
        SkillError: the target names no file that is there and no module.
    """
    match = _MODULE.match(target)
    if match and not match["module"].endswith(".py") and not Path(match["module"]).exists():
        return "", match["module"], match["name"]
    path, function = split(target)
    if Path(path).is_dir():
        raise SkillError(f"{target} is a folder, and a run captures one callable: name it as FILE:FUNCTION")
    if path.endswith(".ipynb"):
        raise SkillError(
            f"{target}: a run imports a Python file: save the notebook as one (`jupyter nbconvert --to script {path}`)"
        )
    return path, "", (function or "").replace("<locals>.", "")


def eager_command(request: Request) -> str:
    """Return a command that runs the same code without a graph; "" if one line cannot do that."""
    if request.launch:
        launcher = [request.python, *request.flags, "-m", TORCHRUN, *request.launch.options]
        ranks_python = ["--no-python", request.python, *request.launch.flags] if request.launch.flags else []
        return shlex.join([*launcher, *ranks_python, *request.program])
    if request.program:
        return shlex.join([request.python, *request.flags, *request.program])
    try:
        path, module, name = locate(request.target)
    except SkillError:
        return ""
    code = f"import {module}" if module else _eager_code(path, name, request)
    return shlex.join([request.python, "-c", code] if code else [request.python, path])


def _eager_code(path: str, name: str, request: Request) -> str:
    """Return Python that calls a function of a file in the current folder; "" if the file can only be run."""
    stem = Path(path).stem
    if not stem.isidentifier() or Path(path).parent != Path() or "." in name:
        return ""
    if name and request.inputs.isidentifier() and not request.make:
        return f"from {stem} import {name}, {request.inputs}; {name}(*{_call(path, request.inputs)})"
    maker = request.make or ("" if name else "make")
    if not maker.isidentifier() or parameters(path, maker) is None:
        return ""
    return f'from {stem} import {maker}; made = {_call(path, maker)}; made["fn"](*made["inputs"]())'


def _call(path: str, function: str) -> str:
    return f'{function}("cuda")' if parameters(path, function) else f"{function}()"


def parameters(path: str, function: str) -> int | None:
    """Count the positional parameters of a function in a file; None if the file has no such function."""
    tree = read_source(path).tree
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return len(node.args.posonlyargs) + len(node.args.args)
    return None
