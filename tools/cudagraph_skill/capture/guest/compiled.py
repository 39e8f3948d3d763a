"""Watch a target that the program compiles from outside: within a compiled region no function is called."""

from __future__ import annotations

import functools
import importlib.machinery
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "_cudagraph_skill_watched"  # the attribute of a watched function
_PASSES = ("_call_impl", "_wrapped_call_impl")  # methods of torch.nn.Module that lead to `forward`


def follow(around: Callable[[Any], Any]) -> None:
    """Let `around` wrap each callable that `torch.compile` makes of a watched one, from when torch is imported on."""
    if "torch" in sys.modules:
        _replace(sys.modules["torch"], around)
    else:
        sys.meta_path.insert(0, _Finder(around))


def _replace(torch: Any, around: Callable[[Any], Any]) -> None:
    real = torch.compile

    @functools.wraps(real)
    def followed(model: Any = None, **options: Any) -> Any:
        if model is None:
            return functools.partial(followed, **options)
        made = real(model, **options)
        if not _is_watched(model):
            return made
        if isinstance(made, torch.nn.Module):
            made.forward = around(made.forward)
            return made
        return around(made)

    torch.compile = followed


def _is_watched(model: Any) -> bool:
    """Return whether a function, a bound method, or the forward pass of a module is watched."""
    owner = model.__self__ if isinstance(model, types.MethodType) else model
    forward = getattr(type(owner), "forward", None)
    is_pass = owner is model or model.__name__ in _PASSES
    return hasattr(model, MARK) or (is_pass and hasattr(forward, MARK))


def plain(function: Any) -> Any:
    """Return what a compiled callable was made of; for that of a module its forward pass."""
    while isinstance(function, types.FunctionType) and "_torchdynamo_orig_callable" in vars(function):
        function = vars(function)["_torchdynamo_orig_callable"]
    if isinstance(function, types.MethodType) and function.__name__ in _PASSES:
        return getattr(function.__self__, "forward", function)
    return function


class _Finder:
    """Finds torch as Python would, once, and has its `compile` replaced."""

    def __init__(self, around: Callable[[Any], Any]) -> None:
        self._around = around

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the specification of torch with our loader; None for every other module."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader) and spec.origin:
            spec.loader = _Loader(name, spec.origin, self._around)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, around: Callable[[Any], Any]) -> None:
        super().__init__(name, path)
        self._around = around

    def exec_module(self, module: types.ModuleType) -> None:
        """Execute torch, then replace its `compile`."""
        super().exec_module(module)
        _replace(module, self._around)
