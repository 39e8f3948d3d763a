"""The calls of torch in fences take the arguments that the installed torch has; what does not run needs more than torch."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.verify.fences import PRELUDE
from fences import fences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.corpus.fences import Fence

PYTHON = [fence for fence in fences() if fence.info.split()[:1] == ["python"]]
_THERE = {"torch", "numpy", *sys.stdlib_module_names}  # where fences run
_MORE = 24  # fences without a GPU run that need nothing more than torch; may only fall


class Names:
    """What the names of a fence are, as far as torch says: modules, functions, classes, and the classes of variables."""

    def __init__(self, tree: ast.AST) -> None:
        self.known: dict[str, Any] = {}
        self.classes: dict[str, type] = {}
        for node in ast.walk(tree):
            self._imported(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._assigned(node.targets[0].id, node.value)

    def _imported(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    module = importlib.import_module(alias.name)
                    self.known[alias.asname or "torch"] = module if alias.asname else torch
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            module = importlib.import_module(node.module or "")
            self.known |= {alias.asname or alias.name: getattr(module, alias.name, None) for alias in node.names}

    def _assigned(self, name: str, value: ast.expr) -> None:
        made = self.of(value.func) if isinstance(value, ast.Call) else None
        if isinstance(made, type) and self.classes.get(name, made) is made:
            self.classes[name] = made

    def of(self, node: ast.expr) -> Any:
        """Return what an expression is, None if torch does not say."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name) and node.value.id in self.classes:
            return _bound(getattr(self.classes[node.value.id], node.attr, None))
        owner = self.of(node.value)
        return None if owner is None else getattr(owner, node.attr, None)


def _bound(method: Any) -> Any:
    return method.__get__(object()) if inspect.isfunction(method) else None


def _tree(fence: Fence) -> ast.Module:
    return ast.parse(PRELUDE + textwrap.dedent(fence.code))


def misfits(code: str) -> Iterator[str]:
    """Yield the calls of torch that do not fit its signatures, and the names that it lacks."""
    tree = ast.parse(code)
    names = Names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (called := names.of(node.func)) is not None:
            yield from _unfit(called, node)
        if (
            isinstance(node, ast.Attribute)
            and inspect.ismodule(owner := names.of(node.value))
            and not hasattr(owner, node.attr)
        ):
            yield f"{ast.unparse(node)}: torch {torch.__version__} lacks it"


def _unfit(called: Any, node: ast.Call) -> Iterator[str]:
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # written in C++
        return
    given = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
    whole = len(given) == len(node.args) and len(keywords) == len(node.keywords)
    try:
        (signature.bind if whole else signature.bind_partial)(*given, **keywords)
    except TypeError as error:
        yield f"{ast.unparse(node)[:100]}: {error}"


def _is_newer(fence: Fence) -> bool:
    """Return whether a fence needs a newer torch than the installed one."""
    return any(torch.__version__ < word.removeprefix("torch>=") for word in fence.info.split() if word.startswith("torch>="))


@pytest.mark.parametrize("path", sorted({fence.path for fence in PYTHON}))
def test_calls_of_torch_take_the_arguments_that_it_has(path: str) -> None:
    given = [fence for fence in PYTHON if fence.path == path and not _is_newer(fence)]
    found = {fence.line: list(misfits(PRELUDE + textwrap.dedent(fence.code))) for fence in given}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


def lacks(fence: Fence) -> set[str]:
    """Return what a fence needs and does not have: names of the reader's program, libraries, a newer torch."""
    bound, used, needed = set(dir(builtins)), set[str](), {"a newer torch"} if _is_newer(fence) else set()
    for node in ast.walk(_tree(fence)):
        match node:
            case ast.Name(name, ast.Load()):
                used.add(name)
            case ast.Name(name) | ast.FunctionDef(name) | ast.ClassDef(name) | ast.arg(name) | ast.ExceptHandler(name=name):
                bound.add(name or "")
            case ast.Import(names):
                bound |= {(alias.asname or alias.name).partition(".")[0] for alias in names}
                needed |= {alias.name.partition(".")[0] for alias in names} - _THERE
            case ast.ImportFrom(module, names):
                bound |= {alias.asname or alias.name for alias in names}
                needed |= {(module or "").partition(".")[0]} - _THERE
    return needed | (used - bound)


def test_what_does_not_run_needs_more_than_torch() -> None:
    complete = [f"{fence.path}:{fence.line}" for fence in PYTHON if "run" not in fence.info.split() and not lacks(fence)]
    assert len(complete) <= _MORE, complete


def test_what_a_fence_needs_is_named() -> None:
    fence = PYTHON[0]._replace(info="python", code="import apex\ny = model(x) + bias\n")
    assert lacks(fence) == {"apex", "bias"}
    assert lacks(fence._replace(code="def f(a):\n    return a + model(x)\n")) == set()
    assert lacks(fence._replace(info="python torch>=99.0", code="")) == {"a newer torch"}


def test_a_call_with_an_argument_that_torch_lacks_is_found() -> None:
    assert list(misfits("import torch\ntorch.cuda.graph(torch.cuda.CUDAGraph(), stream=None)")) == []
    (found,) = misfits("import torch\ntorch.cuda.graph(torch.cuda.CUDAGraph(), streams=None)")
    assert "streams" in found
    (found,) = misfits("from torch import nn\nnet = nn.Linear(2, 2)\nnet.load_state_dict()")
    assert "state_dict" in found
