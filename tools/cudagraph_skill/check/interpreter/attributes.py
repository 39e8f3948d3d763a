"""TODO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.input.modules import Module
from cudagraph_skill.check.interpreter.values import (
    Bound,
    Choice,
    Class,
    Function,
    Instance,
    Mapping,
    Method,
    Object,
    Partial,
    Value,
    const,
    joined,
    mix,
)

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine


class Later(Value):
    """A name that a module of the project exports; the module is run when the name is used."""

    __slots__ = ("busy", "module", "name")

    def __init__(self, module: Module, name: str) -> None:
        super().__init__()
        self.busy = False
        self.module = module
        self.name = name

    def resolve(self, machine: Machine) -> Value:
        """The value behind the name; itself, where only the outline of a module is read that has not been needed yet."""
        if self.busy or (machine.outline and not self.module.started):
            return self
        self.busy = True
        try:
            return self._found(machine)
        finally:
            self.busy = False

    def _found(self, machine: Machine) -> Value:
        machine.load(self.module)
        found = self.module.scope.slots.get(self.name)
        if found is None:
            inner = machine.project.find(f"{self.module.name}.{self.name}", self.module)
            return inner or Value()
        return found.resolve(machine) if isinstance(found, Later) and found is not self else found


class Super(Value):
    """What `super()` returns in a method."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: Class, receiver: Value) -> None:
        super().__init__()
        self.cls = cls
        self.receiver = receiver


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """What `owner.name` is."""
    if isinstance(owner, Later):
        owner = owner.resolve(machine)
        if isinstance(owner, Later):
            return Value()
    if isinstance(owner, Module):
        return _attribute_of_module(machine, owner, name, node)
    if isinstance(owner, Instance):
        return _attribute_of_instance(machine, owner, name, node)
    if isinstance(owner, Class):
        machine.library.complete(machine, owner)
        found = owner.find(name)
        if found:
            read = machine.read(found[0], name, found[1], node)
            return Bound(owner, read) if isinstance(read, Function) and "classmethod" in read.marks else read
        return machine.library.attribute(machine, owner, name, node)
    if isinstance(owner, Super):
        return _attribute_of_super(machine, owner, name)
    if isinstance(owner, Choice):
        return joined([attribute(machine, each, name, node) for each in owner.options], machine.round) or Value()
    if isinstance(owner, Partial) and owner.how in {"graphed", "compile", "autocast"}:
        return attribute(machine, owner.function, name, node)
    if isinstance(owner, Object) and name in owner.slots:
        return machine.read(owner, name, owner.slots[name], node)
    return machine.library.attribute(machine, owner, name, node)


def _attribute_of_module(machine: Machine, module: Module, name: str, node: ast.AST) -> Value:
    if machine.outline and not module.started:
        return Later(module, name)
    machine.load(module)
    if name in module.scope.slots:
        found = machine.read(module.scope, name, module.scope.slots[name], node)
        return found.resolve(machine) if isinstance(found, Later) else found
    return machine.project.find(f"{module.name}.{name}", module) or Value()


def _attribute_of_instance(machine: Machine, owner: Instance, name: str, node: ast.AST) -> Value:
    found = owner.cls.find(name)
    if found and isinstance(found[1], Function) and "property" in found[1].marks:
        return _property(machine, owner, found[1], name, node)
    if name in owner.slots:
        return machine.read(owner, name, owner.slots[name], node)
    if found:
        return bind_member(machine, machine.read(found[0], name, found[1], node), owner)
    if name == "__dict__":
        return _all_attributes(machine, owner)
    if name == "__class__":
        return owner.cls
    guess = machine.library.module_attribute(machine, owner, name, node)
    if guess is not None:
        return guess
    lookup = owner.cls.find("__getattr__")
    if lookup:
        return machine.call(Bound(owner, lookup[1]), [const(name)], {}, node)
    return Value(mix("attribute", owner.sym, name))


def _all_attributes(machine: Machine, owner: Instance) -> Value:
    found = Mapping(owner.made)
    found.slots = owner.slots
    del machine
    return found


def _property(machine: Machine, owner: Instance, getter: Function, name: str, node: ast.AST) -> Value:
    if "cached" not in getter.marks:
        return machine.call(getter, [owner], {}, node)
    if name not in owner.slots:
        machine.write(owner, name, machine.call(getter, [owner], {}, node), node)
    return machine.read(owner, name, owner.slots[name], node)


def bind_member(machine: Machine, found: Value, receiver: Value) -> Value:
    """A member of a class, as seen on an object."""
    del machine
    if isinstance(found, Function):
        if "staticmethod" in found.marks:
            return found
        if "classmethod" in found.marks:
            return Bound(receiver.cls if isinstance(receiver, Instance) else receiver, found)
        return Bound(receiver, found)
    if isinstance(found, Partial):
        return Bound(receiver, found)
    if isinstance(found, Object) and found.name == "builtins.staticmethod":
        return found.args[0]
    return found


def _attribute_of_super(machine: Machine, owner: Super, name: str) -> Value:
    line = owner.receiver.cls.line() if isinstance(owner.receiver, Instance) else owner.cls.line()
    after = line[line.index(owner.cls) + 1 :] if owner.cls in line else []
    for each in after:
        if name in each.slots:
            return bind_member(machine, each.slots[name], owner.receiver)
    if isinstance(owner.receiver, Instance) and name == "__setattr__":
        return Method(owner.receiver, "__setattr__")
    return Method(owner, name)


def set_attribute(machine: Machine, target: ast.Attribute, owner: Value, new: Value) -> None:
    """Run `owner.attr = new`."""
    name = target.attr
    if isinstance(owner, Later):
        owner = owner.resolve(machine)
    if isinstance(owner, Choice):
        for option in owner.options:
            set_attribute(machine, target, option, new)
    elif isinstance(owner, Instance):
        setter = owner.cls.slots.get(f"{name}.setter")
        custom = owner.cls.find("__setattr__")
        if setter is not None:
            machine.call(setter, [owner, new], {}, target)
        elif custom and machine.frame.function != "__setattr__":
            machine.call(Bound(owner, custom[1]), [const(name), new], {}, target)
        else:
            machine.library.on_set(machine, owner, name, new, target)
            machine.write(owner, name, new, target)
    elif isinstance(owner, Module):
        machine.write(owner.scope, name, new, target)
    elif isinstance(owner, (Class, Object)):
        machine.library.on_set(machine, owner, name, new, target)
        machine.write(owner, name, new, target)
    else:
        machine.library.on_set(machine, owner, name, new, target)
