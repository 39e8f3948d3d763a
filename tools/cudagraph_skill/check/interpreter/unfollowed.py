"""Tell which calls of captured code lead to code that this check does not have."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.attributes import Super
from cudagraph_skill.check.interpreter.values import Choice, Class, External, Instance, Method, Object, Partial, Value, quoted

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

# What the library answers for, and what only launches kernels or describes them
_PACKAGES = {"torch", "torchvision", "transformer_engine", "numpy", "np", "triton", "tilelang", "cuda", "builtins", "einops"}
_OF_PYTHON = {name for kind in (dict, list, set, str, tuple) for name in dir(kind)} - {"encode"}  # models have that, too

_OF_HANDLES = {"getPtr"}  # of cuda-bindings


def note_unfollowed(machine: Machine, function: Value, node: ast.AST) -> None:
    """Note a call in captured code whose code was not found; `node` is how the call names it."""
    if not (machine.inside and machine.reporting) or machine.quiet or not _leads_nowhere(machine, function, node):
        return
    if machine.frame.module.installed:
        machine.project.beyond.add(machine.frame.module.name.split(".")[0])
    else:
        machine.unfollowed.setdefault(quoted(node), machine.site(node))


def _leads_nowhere(machine: Machine, function: Value, node: ast.AST) -> bool:
    """Tell whether a called value runs code that was not found."""
    if isinstance(function, Choice):
        return any(_leads_nowhere(machine, option, node) for option in function.options)
    if isinstance(function, Partial):
        return function.how != "launch" and _leads_nowhere(machine, function.function, node)
    if isinstance(function, Method):
        return _is_unknown(function.receiver) and not _is_of_data(machine, node)
    if isinstance(function, (External, Object, Instance)):
        return _is_unknown(function)
    return type(function) is Value and not _is_of_data(machine, node) and not _is_type_of(node)


def _is_unknown(value: Value) -> bool:
    """Tell whether the code of a value is neither read nor known."""
    if isinstance(value, (External, Object)):
        return not _is_known(value.name)
    if isinstance(value, Super):
        return inherits_unknown(value.cls)
    if isinstance(value, Instance):
        own = value.cls.find("__call__") or value.cls.find("forward") or value.slots.get("forward")
        return own is None and inherits_unknown(value.cls)
    return type(value) is Value


def inherits_unknown(cls: Class) -> bool:
    """Tell whether a class inherits from one whose code was not found."""
    bases = [base for each in cls.line() for base in each.bases]
    return any(type(base) is Value or (isinstance(base, External) and not _is_known(base.name)) for base in bases)


def _is_known(name: str) -> bool:
    """Tell whether the library answers for a dotted name; one without a dot is a kind of value of ours."""
    package, dot, _ = name.partition(".")
    return not dot or answered_for(package)


def answered_for(package: str) -> bool:
    """Tell whether a package is one that needs no reading: the library knows it, or it is Python's."""
    return package in _PACKAGES or package in sys.stdlib_module_names


def _is_type_of(node: ast.AST) -> bool:
    """Tell whether a call makes another object of the type that a value has: no model, whose type would be named."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1


def _is_of_data(machine: Machine, node: ast.AST) -> bool:
    """Tell whether a call names a method that tensors or Python's containers have, of what is no object of the user's."""
    if not isinstance(node, ast.Attribute):
        return False
    if node.attr not in _OF_PYTHON | _OF_HANDLES and not machine.library.is_of_tensors(node.attr):
        return False
    return not (isinstance(node.value, ast.Name) and isinstance(machine.value(node.value), Instance))
