"""Run what gives names to code: `def`, `class`, `import`, and the decorators above them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.assignment import bind
from cudagraph_skill.check.interpreter.attributes import Later
from cudagraph_skill.check.interpreter.frames import NEXT, Exhausted, Frame
from cudagraph_skill.check.interpreter.values import Class, External, Function, Method, Partial, Scope, Value

if TYPE_CHECKING:
    from cudagraph_skill.check.input.modules import Module
    from cudagraph_skill.check.interpreter.machine import Machine

_DECORATING = 2_000  # steps that a decorator may take


def define(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Run a `def`."""
    bind(machine, node.name, defined(machine, node), node)
    return NEXT


def defined(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
    """Return the value of a `def`: the function, as its decorators leave it."""
    function = Function(node, machine.frame.scope.visible(), machine.frame.module, node.name)
    function.defaults = defaults(machine, node.args)
    machine.created.setdefault(node, []).append(function)
    value: Value = function
    for decorator in reversed(node.decorator_list):
        value = _decorated(machine, decorator, value)
    return value


def _decorated(machine: Machine, node: ast.expr, value: Value) -> Value:
    """Return what a decorator makes of a function."""
    decorator = _outlined(machine, node)
    if isinstance(decorator, Later):
        decorator = decorator.resolve(machine)
    # It is followed into its own module but no further, and not for long: many only register or document.
    outline, steps = machine.outline, machine.steps
    machine.outline, machine.steps = True, max(machine.steps, machine.budget - _DECORATING)
    try:
        return decorate(machine, decorator, value, node)
    except Exhausted:
        return value
    finally:
        machine.outline, machine.steps = outline, steps


def _outlined(machine: Machine, node: ast.expr) -> Value:
    """Return the value of an expression without reading another module for it."""
    outline, machine.outline = machine.outline, True
    try:
        return machine.value(node)
    finally:
        machine.outline = outline


def defaults(machine: Machine, arguments: ast.arguments) -> dict[str, Value]:
    """Return default values by name of the argument."""
    positional = [*arguments.posonlyargs, *arguments.args]
    # Defaults belong to the last of the positional arguments.
    pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    pairs += [(argument, value) for argument, value in keywords if value]
    return {argument.arg: machine.value(value) for argument, value in pairs}


def define_class(machine: Machine, node: ast.ClassDef) -> int:
    """Run a `class`."""
    bases = [_outlined(machine, base) for base in node.bases if not isinstance(base, ast.Starred)]
    made = Class(node, bases, machine.frame.module, machine.round)
    scope = Scope(machine.round, machine.frame.scope, machine.frame.scope.global_scope)
    scope.slots = made.slots  # what the body assigns are the members
    scope.of_class = True
    frame = Frame(machine.frame.module, scope, node.name, node)
    machine.frames.append(frame)
    try:
        machine.block(node.body)
    finally:
        machine.frames.pop()
    # A bare `super()` in a method asks for the class that holds the method.
    for value in made.slots.values():
        for function in _functions_of(value):
            function.owner = function.owner or made
    result: Value = made
    for decorator in reversed(node.decorator_list):
        result = machine.library.decorate_class(_outlined(machine, decorator), made)
    bind(machine, node.name, result, node)
    return NEXT


def import_modules(machine: Machine, node: ast.Import) -> int:
    """Run `import a.b, c as d`."""
    for alias in node.names:
        top = alias.name.split(".")[0]
        module = machine.project.find(alias.name if alias.asname else top, machine.frame.module)
        # `import a.b` binds `a`; only `import a.b as c` binds the inner module.
        bind(machine, alias.asname or top, module or External(alias.name if alias.asname else top), node)
    return NEXT


def import_names(machine: Machine, node: ast.ImportFrom) -> int:
    """Run `from a import b`; a name of a module of the project is looked up when it is used."""
    module = machine.project.find(node.module or "", machine.frame.module, node.level)
    for alias in node.names:
        if alias.name == "*":
            _import_all(machine, module, node)
        elif module is None and not node.level:
            bind(machine, alias.asname or alias.name, machine.library.named(f"{node.module}.{alias.name}"), node)
        elif module is None:  # a relative import of a file that is not there
            bind(machine, alias.asname or alias.name, Value(), node)
        else:
            bind(machine, alias.asname or alias.name, Later(module, alias.name), node)
    return NEXT


def _import_all(machine: Machine, module: Module | None, node: ast.AST) -> None:
    if module is not None and module is not machine.frame.module and not machine.outline:
        machine.load(module)
        for name, value in list(module.scope.slots.items()):
            bind(machine, name, value, node)


def decorate(machine: Machine, decorator: Value, function: Value, node: ast.AST) -> Value:
    """Return what a decorator makes of a function; the function itself where nothing is known of the decorator."""
    if isinstance(decorator, Method) and decorator.name in {"setter", "getter", "deleter"}:
        # `@x.setter` leaves the property; set_attribute looks the setter up by its own name.
        if isinstance(function, Function):
            machine.frame.scope.slots[f"{function.name}.{decorator.name}"] = function
            return machine.frame.scope.slots.get(function.name, function)
        return function
    marked = machine.library.mark(decorator, function)
    if marked is not None:
        return marked
    if isinstance(decorator, Later):
        return function
    made = machine.call(decorator, [function], {}, node)
    return function if type(made) is Value or isinstance(made, Later) else made


def _functions_of(value: Value) -> list[Function]:
    """Return the functions that a member of a class leads to, through what wraps them."""
    if isinstance(value, Function):
        return [value]
    if isinstance(value, Partial):
        return _functions_of(value.function)
    return []
