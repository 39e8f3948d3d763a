"""Describe what is known of a Python value: a number, a tensor on some device, a container, something callable, or nothing.

Two marks travel with values. `sym` names a host value by how it came about, so that two rounds of the same code show whether it
changes from call to call. `origins` are the places that make a host value change at every call and that a replay would not
see: where one reaches GPU work, these are the lines to report.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cudagraph_skill.check.interpreter import syntax
from cudagraph_skill.check.interpreter.symbols import Sym, either, fresh, mix, sym_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NOTHING: Final = object()  # where no Python value is known
_QUOTE = 60  # characters of source in a message
_WIDE = 64  # items of a container that are told apart

_NUMBERS = {"extent", "int", "float", "bool", "number"}
_OPTIONS = 4  # alternatives that are followed one by one


class Origin(NamedTuple):
    """A place that makes a host value change from call to call: `id` is the hazard, `slot` what was read there."""

    id: str
    path: str
    line: int
    column: int
    message: str
    via: tuple[str, ...]
    slot: tuple[int, Any] | None = None


Origins = frozenset[Origin]
NONE: Final[Origins] = frozenset()


class Value:
    """Anything; this class itself stands for a value of which nothing is known."""

    __slots__ = ("origins", "sym")

    def __init__(self, sym: Sym | None = None, origins: Origins = NONE) -> None:
        self.sym = fresh() if sym is None else sym
        self.origins = origins

    def marked(self, origins: Origins) -> Value:
        """Return the same value with more origins."""
        # Functions, objects and containers have no marks: who asks for one of them reports the origins at once.
        return self if not origins or type(self) is not Value else Value(self.sym, self.origins | origins)

    def parts(self) -> list[Value]:
        """Return what this value keeps alive."""
        return []


class Host(Value):
    """A Python scalar, string, dtype or device; `kind` is its type where known, `value` itself where known, else `least` a bound."""

    __slots__ = ("kind", "least", "value")

    def __init__(self, kind: str = "", value: object = _NOTHING, sym: Sym | None = None, origins: Origins = NONE) -> None:
        # Equal values have one name: a number that is computed anew in each call has not changed.
        if sym is None and value is not _NOTHING:
            sym = sym_of(value)
        super().__init__(sym, origins)
        self.kind = kind
        self.value = value
        self.least: float | None = 0 if kind == "extent" else value if isinstance(value, (int, float)) else None

    @property
    def known(self) -> bool:
        """Whether the Python value itself is known."""
        return self.value is not _NOTHING

    def marked(self, origins: Origins) -> Value:
        """Return the same value with more origins."""
        return self._with(self.origins | origins) if origins - self.origins else self

    def settled(self) -> Host:
        """Return the same value without origins: it was made in an earlier call and has not changed since."""
        if not self.origins:
            return self
        # A rank does not change in one process, but other processes have another.
        return self._with(frozenset(origin for origin in self.origins if origin.id == "CG706"))

    def renamed(self, how: str) -> Host:
        """Return another value of which the same is known."""
        return self._with(self.origins, mix(how, self.sym))

    def _with(self, origins: Origins, sym: Sym | None = None) -> Host:
        same = Host(self.kind, self.value, self.sym if sym is None else sym, origins)
        same.least = self.least
        return same


class Tensor(Value):
    """A torch tensor: `device` is cuda, cpu or "" for unknown; `storages` are the memory it may share with others.

    `ndim` is None where unknown, `dtype` one of bool, int, float, "". `origins` and `sym` speak of the contents of a CPU
    tensor. `first` is the size of its first dimension where known.
    """

    __slots__ = (
        "assumed",
        "base",
        "device",
        "downloaded",
        "dtype",
        "first",
        "frozen",
        "layout",
        "ndim",
        "optional",
        "parameter",
        "pinned",
        "storages",
    )

    def __init__(
        self,
        device: str = "cuda",
        ndim: int | None = None,
        dtype: str = "",
        storages: frozenset[int] | None = None,
        sym: Sym | None = None,
        origins: Origins = NONE,
        *,
        pinned: bool = False,
        first: int | None = None,
    ) -> None:
        super().__init__(sym, origins)
        self.device = device
        self.ndim = ndim
        self.dtype = dtype
        self.storages = frozenset((fresh(),)) if storages is None else storages
        self.pinned = pinned
        self.first = first
        self.optional = False  # may be None
        self.parameter = ""  # "parameter" or "buffer": moves with its module
        self.layout = ""  # "sparse", "csr"
        self.base: Tensor | None = None  # of a view of CPU memory: the tensor that was made first
        self.frozen = False  # a parameter that is not trained
        self.assumed = False  # nothing is known of it but that captured code uses it as a tensor
        self.downloaded = False  # filled by a copy from the GPU that nobody waited for

    @property
    def on_gpu(self) -> bool:
        """Whether its memory is taken to be the GPU's: an unknown device in captured code is."""
        return self.device != "cpu"

    def view(self, ndim: int | None = None, dtype: str | None = None) -> Tensor:
        """Return another tensor on the same memory."""
        new = Tensor(self.device, ndim, self.dtype if dtype is None else dtype, self.storages, self.sym, self.origins)
        new.pinned, new.layout, new.downloaded, new.assumed = self.pinned, self.layout, self.downloaded, self.assumed
        # Who changes the view changes the tensor that it was made from.
        new.base = None if self.on_gpu else self.base or self
        return new

    def marked(self, origins: Origins) -> Value:
        """Return the same tensor with more origins; a tensor on the GPU has none."""
        # Its contents may change between replays: that is what static inputs are for.
        if self.on_gpu or not origins - self.origins:
            return self
        new = self.view(self.ndim)
        new.origins |= origins
        new.first, new.optional, new.parameter = self.first, self.optional, self.parameter
        return new


class Array(Value):
    """A numpy array."""

    __slots__ = ("ndim",)

    def __init__(self, ndim: int | None = None, sym: Sym | None = None, origins: Origins = NONE) -> None:
        super().__init__(sym, origins)
        self.ndim = ndim

    def marked(self, origins: Origins) -> Value:
        """Return the same array with more origins."""
        return Array(self.ndim, self.sym, self.origins | origins) if origins - self.origins else self


class Holder(Value):
    """A value with parts that can be replaced; `made` is the round in which it came about."""

    __slots__ = ("made", "slots")

    def __init__(self, made: int) -> None:
        super().__init__()
        self.made = made
        self.slots: dict[Any, Value] = {}

    def parts(self) -> list[Value]:
        """Return what its slots hold."""
        return list(self.slots.values())


class Sequence(Holder):
    """A list, tuple, set or deque: `items` where they are known one by one, else `rest` stands for each of them."""

    __slots__ = ("items", "kind", "rest")

    def __init__(self, kind: str, items: list[Value] | None, made: int, rest: Value | None = None) -> None:
        super().__init__(made)
        self.kind = kind
        # A long list is taken for one value of which there are many.
        self.items = items if items is None or len(items) <= _WIDE else None
        self.rest = rest
        if items is not None and self.items is None:
            self.rest = joined(items, made)

    def each(self) -> list[Value]:
        """Return a value for each kind of item."""
        return self.items if self.items is not None else [self.rest] if self.rest is not None else []

    def parts(self) -> list[Value]:
        """Return its items, where they are known one by one."""
        return list(self.items or ())


class Mapping(Holder):
    """A dict: `slots` by known Python key; `rest` stands for the items of which the key is not known.

    `factory` makes the items that are missing (defaultdict, Counter).
    """

    __slots__ = ("factory", "rest")

    def __init__(self, made: int, rest: Value | None = None) -> None:
        super().__init__(made)
        self.rest = rest
        self.factory: Value | None = None

    def each(self) -> list[Value]:
        """Return a value for each item."""
        return [*self.slots.values(), *([self.rest] if self.rest is not None else [])]


class Scope(Holder):
    """The names of a module, class body or call; `outer` is where a name is looked up next."""

    __slots__ = ("declared", "global_scope", "of_class", "outer", "varying")

    def __init__(self, made: int, outer: Scope | None = None, global_scope: Scope | None = None) -> None:
        super().__init__(made)
        self.outer = outer
        self.global_scope = global_scope or self
        self.of_class = False  # a class body: functions in it do not see its names
        self.declared: dict[str, Scope] = {}  # names of `global` and `nonlocal` statements
        self.varying: frozenset[str] = frozenset()  # arguments that differ from call to call

    def visible(self) -> Scope:
        """Return what a function that is defined here sees."""
        return self.outer if self.of_class and self.outer is not None else self

    def parts(self) -> list[Value]:
        """Return what its names hold, and the scope around it."""
        return [*self.slots.values(), *([self.outer] if self.outer is not None else [])]


class Function(Value):
    """A function of the user's."""

    __slots__ = ("defaults", "marks", "memo", "module", "name", "node", "owner", "scope")

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope, module: Any, name: str) -> None:
        super().__init__(id(node))
        self.node = node
        self.scope = scope
        self.module = module
        self.name = name
        self.owner: Class | None = None
        self.defaults: dict[str, Value] = {}
        self.marks: frozenset[str] = frozenset()  # property, staticmethod, contextmanager, …
        self.memo: dict[Any, Value] | None = None  # of functools.lru_cache

    def parts(self) -> list[Value]:
        """Return defaults, results that it caches, and what it has of the calls around it."""
        return [*self.defaults.values(), *(self.memo or {}).values(), *self._enclosed()]

    def _enclosed(self) -> list[Value]:
        enclosed = []
        for name in syntax.names(self.node):
            scope: Scope | None = self.scope
            while scope is not None and name not in scope.slots:
                scope = scope.outer
            # The names of a module are alive anyway.
            if scope is not None and scope.outer is not None:
                enclosed.append(scope.slots[name])
        return enclosed


class Bound(Value):
    """A function of the user's with its first argument."""

    __slots__ = ("function", "receiver")

    def __init__(self, receiver: Value, function: Value) -> None:
        super().__init__(mix("bound", receiver.sym, function.sym))
        self.receiver = receiver
        self.function = function

    def parts(self) -> list[Value]:
        """Return the function and its object."""
        return [self.function, self.receiver]


class Method(Value):
    """A method of something that is not the user's: of a tensor, a list, a library's object."""

    __slots__ = ("name", "receiver")

    def __init__(self, receiver: Value, name: str) -> None:
        super().__init__(mix("method", receiver.sym, name))
        self.receiver = receiver
        self.name = name

    def parts(self) -> list[Value]:
        """Return the object."""
        return [self.receiver]


class Partial(Value):
    """A callable with some arguments given; `how` is "" for functools.partial, else what wraps it (vmap, grad, compile)."""

    __slots__ = ("args", "function", "how", "kwargs")

    def __init__(self, function: Value, args: list[Value], kwargs: dict[str, Value], how: str = "") -> None:
        super().__init__(mix("partial", function.sym, how))
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.how = how

    def parts(self) -> list[Value]:
        """Return the function and what it was given."""
        return [self.function, *self.args, *self.kwargs.values()]


class Native(Value):
    """A callable of the checker's own, where a library hands one back."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[list[Value], dict[str, Value]], Value]) -> None:
        super().__init__()
        self.run = run


class Class(Holder):
    """A class of the user's: `slots` is its namespace, `bases` what it inherits from."""

    __slots__ = ("bases", "module", "name", "node")

    def __init__(self, node: ast.ClassDef, bases: list[Value], module: Any, made: int) -> None:
        super().__init__(made)
        self.node = node
        self.name = node.name
        self.bases = bases
        self.module = module

    def line(self) -> list[Class]:
        """Return this class and the user's classes that it inherits from, nearest first."""
        line = [self]
        for base in self.bases:
            # A class may be defined anew from the one of its name, which then is its own base by name.
            line += [cls for cls in base.line() if cls not in line] if isinstance(base, Class) and base is not self else []
        return line

    def libraries(self) -> set[str]:
        """Return dotted names of classes of others that it inherits from."""
        return {base.name for cls in self.line() for base in cls.bases if isinstance(base, External)}

    def find(self, name: str) -> tuple[Class, Value] | None:
        """Return a member of the class with the class that defines it; None for no such member."""
        return next(((cls, cls.slots[name]) for cls in self.line() if name in cls.slots), None)

    def parts(self) -> list[Value]:
        """Return its members and its bases."""
        return [*self.slots.values(), *self.bases]


class Instance(Holder):
    """An object of a class of the user's: `slots` are its attributes."""

    __slots__ = ("cls", "guessed")

    def __init__(self, cls: Class, made: int) -> None:
        super().__init__(made)
        self.cls = cls
        self.guessed = False  # made up for a method of which nobody makes an object

    def parts(self) -> list[Value]:
        """Return its attributes and its class."""
        return [*self.slots.values(), self.cls]


class External(Value):
    """Something of a library, by its dotted name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(mix("external", name))
        self.name = name


class Object(Holder):
    """What a class or function of a library returned: its dotted name and the arguments that made it."""

    __slots__ = ("args", "call", "kwargs", "name", "site")

    def __init__(self, name: str, args: list[Value], kwargs: dict[str, Value], made: int) -> None:
        super().__init__(made)
        self.call: ast.AST | None = None  # the call that made it, where the user can change it
        self.site: tuple[str, int, int] | None = None  # path, line and column of the call that made it
        self.name = name
        self.args = args
        self.kwargs = kwargs

    def parts(self) -> list[Value]:
        """Return its attributes and what made it."""
        return [*self.slots.values(), *self.args, *self.kwargs.values()]


class Choice(Value):
    """One of several values that have nothing in common."""

    __slots__ = ("options",)

    def __init__(self, options: list[Value]) -> None:
        super().__init__(mix("choice", *(option.sym for option in options)), origins_of(options))
        self.options = options

    def parts(self) -> list[Value]:
        """Return the alternatives."""
        return self.options


def const(value: object, origins: Origins = NONE) -> Host:
    """Return a Python value that is known."""
    return Host(type(value).__name__, value, None, origins)


def number(sym: Sym | None = None, origins: Origins = NONE) -> Host:
    """Return some Python number."""
    return Host("number", sym=sym, origins=origins)


def device(kind: str) -> Host:
    """Return a torch.device: cuda, cpu, or "" where it is not known."""
    return Host("device", kind, mix("device", kind))


def is_none(value: Value) -> bool:
    """Tell whether it is known to be None."""
    return isinstance(value, Host) and value.value is None


def origins_of(values: Iterable[Value]) -> Origins:
    """Return all origins of these, containers included one level down."""
    origins: Origins = NONE
    for value in values:
        origins |= value.origins
        if isinstance(value, (Sequence, Mapping)):
            for item in value.each():
                origins |= item.origins
    return origins


def tensors_in(value: Value, depth: int = 3) -> list[Tensor]:
    """Return the tensors in a value and in the containers that it holds."""
    # A list may hold itself, which the depth ends.
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (Sequence, Mapping)) and depth:
        return [tensor for item in value.each() for tensor in tensors_in(item, depth - 1)]
    if isinstance(value, Choice):
        return [tensor for item in value.options for tensor in tensors_in(item, depth)]
    return []


def join(one: Value, other: Value, made: int) -> Value:
    """Return a value that may be either."""
    # The same number in both branches stays known, whatever it was made from.
    if one is other or (one.sym == other.sym and type(one) is type(other) and isinstance(one, Host)):
        return one.marked(other.origins)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return _joined_tensors(one, other)
    # An optional mask: `is None` on it is not decided, all else treats it as a tensor.
    for tensor, absent in ((one, other), (other, one)):
        if isinstance(tensor, Tensor) and is_none(absent):
            return _optional(tensor)
    if isinstance(one, Host) and isinstance(other, Host):
        return _joined_hosts(one, other)
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        return _joined_sequences(one, other, made)
    return _choice(one, other)


def _joined_hosts(one: Host, other: Host) -> Host:
    # An extent and a constant are both numbers; a number and a text have nothing in common.
    kind = one.kind if one.kind == other.kind else "number" if {one.kind, other.kind} <= _NUMBERS else ""
    return Host(kind, sym=either(one.sym, other.sym), origins=one.origins | other.origins)


def _choice(one: Value, other: Value) -> Value:
    options: list[Value] = []
    for value in (one, other):
        options += [option for option in (value.options if isinstance(value, Choice) else [value]) if option not in options]
    # Where one of them may be anything, or they are many, following each says no more than following none.
    if type(one) is Value or type(other) is Value or len(options) > _OPTIONS:
        return Value(mix("or", one.sym, other.sym), one.origins | other.origins)
    return Choice(options)


def _joined_tensors(one: Tensor, other: Tensor) -> Tensor:
    # It may share the memory of either, so a write to it may be a write to both.
    new = Tensor(
        one.device if one.device == other.device else "",
        one.ndim if one.ndim == other.ndim else None,
        one.dtype if one.dtype == other.dtype else "",
        one.storages | other.storages,
        mix("or", one.sym, other.sym),
        one.origins | other.origins,
    )
    new.pinned = one.pinned and other.pinned
    new.optional = one.optional or other.optional
    return new


def _optional(tensor: Tensor) -> Tensor:
    new = tensor.view(tensor.ndim)
    new.optional = True
    new.first, new.parameter = tensor.first, tensor.parameter
    return new


def _joined_sequences(one: Sequence, other: Sequence, made: int) -> Sequence:
    # Two lists of one length are told apart item by item; else one value stands for all items of both.
    if one.items is not None and other.items is not None and len(one.items) == len(other.items):
        items = [join(*pair, made) for pair in zip(one.items, other.items, strict=True)]
        return Sequence(one.kind, items, made)
    return Sequence(one.kind, None, made, joined([*one.each(), *other.each()], made))


def joined(values: list[Value], made: int) -> Value | None:
    """Return a value that may be any of these; None for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value, made)
    return result


def quoted(node: ast.AST) -> str:
    """Return the source of an expression for a message, shortened."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError, AttributeError):
        return "this"
    return f"`{text}`" if len(text) <= _QUOTE else f"`{text[: _QUOTE - 1]}…`"
