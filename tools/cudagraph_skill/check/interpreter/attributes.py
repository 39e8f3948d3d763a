"""Read and set attributes: of modules, classes, objects, `super()`, and of what belongs to a library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.input.modules import Module
from cudagraph_skill.check.interpreter.assumptions import assuming, tensor_for
from cudagraph_skill.check.interpreter.symbols import mix
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
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

_TRANSPARENT = {"graphed", "compile", "autocast"}  # wrappers that show the attributes of what they wrap


class Later(Value):
    """A name that a module of the project exports; the module is run when the name is used."""

    __slots__ = ("busy", "module", "name")

    def __init__(self, module: Module, name: str) -> None:
        super().__init__()
        self.busy = False
        self.module = module
        self.name = name

    def resolve(self, machine: Machine) -> Value:
        """Return the value behind the name; itself, where only outlines are read and its module has not been needed yet."""
        # Two modules may import from each other, and a package may import its own parts.
        if self.busy or (machine.outline and not self.module.started):
            return self
        self.busy = True
        try:
            return self._exported(machine)
        finally:
            self.busy = False

    def _exported(self, machine: Machine) -> Value:
        machine.load(self.module)
        exported = self.module.scope.slots.get(self.name)
        if exported is None:
            # `from package import part` names a module that the package itself need not mention.
            return inner_module(machine, self.module, self.name)
        return exported.resolve(machine) if isinstance(exported, Later) and exported is not self else exported


def inner_module(machine: Machine, module: Module, name: str) -> Value:
    """Return what a package has that its own file does not bind: a module in it, or a name that it exports by code only."""
    found = machine.project.find(f"{module.name}.{name}", module)
    if found is not None:
        return found
    defining = machine.project.defining(module, name)
    if defining is None or defining is module:
        return Value()
    machine.load(defining)
    return defining.scope.slots.get(name, Value())


class Super(Value):
    """What `super()` returns in a method."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: Class, receiver: Value) -> None:
        super().__init__()
        self.cls = cls
        self.receiver = receiver


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """Return what `owner.name` is."""
    read = _ATTRIBUTES.get(type(owner))
    if read:
        return read(machine, owner, name, node)
    owner = tensor_for(machine, owner, name, node)
    return assuming(machine, [owner], lambda: machine.library.attribute(machine, owner, name, node))


def _attribute_of_later(machine: Machine, owner: Later, name: str, node: ast.AST) -> Value:
    resolved = owner.resolve(machine)
    return Value() if isinstance(resolved, Later) else attribute(machine, resolved, name, node)


def _attribute_of_choice(machine: Machine, owner: Choice, name: str, node: ast.AST) -> Value:
    return joined([attribute(machine, option, name, node) for option in owner.options], machine.round) or Value()


def _attribute_of_partial(machine: Machine, owner: Partial, name: str, node: ast.AST) -> Value:
    if owner.how in _TRANSPARENT:
        return attribute(machine, owner.function, name, node)
    return machine.library.attribute(machine, owner, name, node)


def _attribute_of_object(machine: Machine, owner: Object, name: str, node: ast.AST) -> Value:
    if name in owner.slots:
        return machine.read(owner, name, owner.slots[name], node)
    return machine.library.attribute(machine, owner, name, node)


def _attribute_of_module(machine: Machine, module: Module, name: str, node: ast.AST) -> Value:
    if machine.outline and not module.started:
        return Later(module, name)
    machine.load(module)
    if name in module.scope.slots:
        exported = machine.read(module.scope, name, module.scope.slots[name], node)
        return exported.resolve(machine) if isinstance(exported, Later) else exported
    return inner_module(machine, module, name)


def _attribute_of_class(machine: Machine, owner: Class, name: str, node: ast.AST) -> Value:
    machine.library.complete(machine, owner)
    member = owner.find(name)
    if member is None:
        return machine.library.attribute(machine, owner, name, node)
    value = machine.read(member[0], name, member[1], node)
    # A plain function stays as it is: `Net.forward(net, x)` passes the object itself.
    return Bound(owner, value) if isinstance(value, Function) and "classmethod" in value.marks else value


def _attribute_of_instance(machine: Machine, owner: Instance, name: str, node: ast.AST) -> Value:
    # As Python looks it up: a property goes before the object's own attributes, and these before other members.
    member = owner.cls.find(name)
    if member and isinstance(member[1], Function) and "property" in member[1].marks:
        return _property(machine, owner, member[1], name, node)
    if name in owner.slots:
        return machine.read(owner, name, owner.slots[name], node)
    if member:
        return bind_member(machine.read(member[0], name, member[1], node), owner)
    if name == "__dict__":
        return _attributes_as_dict(owner)
    if name == "__class__":
        return owner.cls
    inherited = machine.library.module_attribute(machine, owner, name, node)
    if inherited is not None:
        return inherited
    fallback = owner.cls.find("__getattr__")
    if fallback:
        return machine.call(Bound(owner, fallback[1]), [const(name)], {}, node)
    return Value(mix("attribute", owner.sym, name))


def _attributes_as_dict(owner: Instance) -> Value:
    attributes = Mapping(owner.made)
    # The same slots, not a copy: what is written to `__dict__` is an attribute.
    attributes.slots = owner.slots
    return attributes


def _property(machine: Machine, owner: Instance, getter: Function, name: str, node: ast.AST) -> Value:
    if "cached" not in getter.marks:
        return machine.call(getter, [owner], {}, node)
    # The first call computes it, be that a warm-up or the capture.
    if name not in owner.slots:
        machine.write(owner, name, machine.call(getter, [owner], {}, node), node)
    return machine.read(owner, name, owner.slots[name], node)


def _attribute_of_super(_: Machine, owner: Super, name: str, __: ast.AST) -> Value:
    # The classes behind this one in the order of the object's own class, which may have more bases.
    line = owner.receiver.cls.line() if isinstance(owner.receiver, Instance) else owner.cls.line()
    after = line[line.index(owner.cls) + 1 :] if owner.cls in line else []
    for cls in after:
        if name in cls.slots:
            return bind_member(cls.slots[name], owner.receiver)
    # Behind the user's classes stands nn.Module or object, whose setter is the plain one.
    if isinstance(owner.receiver, Instance) and name == "__setattr__":
        return Method(owner.receiver, "__setattr__")
    return Method(owner, name)


def bind_member(member: Value, receiver: Value) -> Value:
    """Return a member of a class as it is seen on an object."""
    if isinstance(member, Function):
        if "staticmethod" in member.marks:
            return member
        if "classmethod" in member.marks:
            return Bound(receiver.cls if isinstance(receiver, Instance) else receiver, member)
        return Bound(receiver, member)
    if isinstance(member, Partial):  # a method that was compiled or wrapped when the class was made
        return Bound(receiver, member)
    if isinstance(member, Object) and member.name == "builtins.staticmethod":
        return member.args[0]
    return member


def set_attribute(machine: Machine, target: ast.Attribute, owner: Value, new: Value) -> None:
    """Run `owner.attr = new`."""
    if isinstance(owner, Later):
        owner = owner.resolve(machine)
    if isinstance(owner, Choice):
        for option in owner.options:
            set_attribute(machine, target, option, new)
    elif isinstance(owner, Module):
        machine.write(owner.scope, target.attr, new, target)
    elif not isinstance(owner, Instance) or not _set_by_class(machine, target, owner, new):
        machine.library.on_set(machine, owner, target.attr, new, target)
        if isinstance(owner, (Instance, Class, Object)):
            machine.write(owner, target.attr, new, target)


def _set_by_class(machine: Machine, target: ast.Attribute, owner: Instance, new: Value) -> bool:
    """Run the property setter, or the `__setattr__`, that the class has for this attribute; tell whether there is one."""
    setter = owner.cls.find(f"{target.attr}.setter")
    custom = owner.cls.find("__setattr__")
    if setter is not None:
        machine.call(setter[1], [owner, new], {}, target)
        return True
    # A `__setattr__` that sets attributes itself does not mean to call itself.
    if custom and machine.frame.function != "__setattr__":
        machine.call(Bound(owner, custom[1]), [const(target.attr), new], {}, target)
        return True
    return False


_ATTRIBUTES: dict[type, Callable[[Machine, Any, str, ast.AST], Value]] = {
    Later: _attribute_of_later,
    Module: _attribute_of_module,
    Instance: _attribute_of_instance,
    Class: _attribute_of_class,
    Super: _attribute_of_super,
    Choice: _attribute_of_choice,
    Partial: _attribute_of_partial,
    Object: _attribute_of_object,
}
