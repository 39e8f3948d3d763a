"""Bind the arguments of a call to the parameters of a signature, so that position and keyword read the same.

A signature is written as a `def` writes it, without annotations: `input, dim=None, *, out`. Where overloads name the same place
differently, the names stand beside each other, the one that rules use first: `dim|other`. Code under check may be wrong, so
`bind` never raises: what fits no parameter is kept apart.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cudagraph_skill.check.interpreter.values import Value

# torch takes NumPy's names for these parameters too
_NUMPY = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}


class Signature(NamedTuple):
    """The parameters of an operation, and where each spelling of a keyword goes."""

    positional: tuple[str, ...]
    rest: str  # the parameter with a star, "" for none
    keyword_only: tuple[str, ...]
    spelled: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Return every parameter in order, by the name that rules use."""
        return (*self.positional, *((self.rest,) if self.rest else ()), *self.keyword_only)


class Arguments:
    """The arguments of one call by parameter; `rest` are those of the starred parameter, `extra` fit none."""

    __slots__ = ("extra", "named", "rest", "signature")

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.named: dict[str, Value] = {}
        self.rest: list[Value] = []
        self.extra: dict[int | str, Value] = {}

    def get(self, name: str) -> Value | None:
        """Return the argument of a parameter, None where the call leaves it out; a keyword needs no place in the signature."""
        return self.named.get(name) or self.extra.get(name)

    def first(self) -> Value | None:
        """Return the argument of the first parameter: of a method, the object that it belongs to."""
        return next(iter(self.given(self.signature.names[:1])), None)

    def given(self, names: Iterable[str]) -> list[Value]:
        """Return the arguments that these parameters have; a starred one may have several."""
        values: list[Value] = []
        for name in names:
            if name == self.signature.rest:
                values += self.rest
            elif name in self.named:
                values.append(self.named[name])
        return values

    def values(self) -> list[Value]:
        """Return all arguments in the order of the signature, however the call spells them."""
        return [*self.given(self.signature.names), *self.extra.values()]

    def positional(self) -> list[Value]:
        """Return the arguments that could stand without a keyword, in the order of the signature."""
        by_place = [value for key, value in self.extra.items() if isinstance(key, int)]
        return [*self.given((*self.signature.positional, self.signature.rest)), *by_place]


@lru_cache(maxsize=1000)
def signature(text: str) -> Signature:
    """Parse a signature: names with `|` between spellings, defaults for the reader, `*` as in Python."""
    positional: list[str] = []
    keyword_only: list[str] = []
    rest = ""
    spelled: dict[str, str] = {}
    into = positional
    for part in text.split(","):
        written = part.partition("=")[0].strip()
        name, *others = written.lstrip("*").split("|")
        if written.startswith("*"):
            rest, into = name, keyword_only
        elif name:
            into.append(name)
        spelled.update(dict.fromkeys((name, *others), name))
    for name in [*spelled]:
        spelled |= {alias: spelled[name] for alias in _NUMPY.get(name, ()) if alias not in spelled}
    spelled.pop("", None)
    return Signature(tuple(positional), rest, tuple(keyword_only), spelled)


def bind(text: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Arguments:
    """Bind a call to a signature."""
    shape = signature(text)
    bound = Arguments(shape)
    bound.named.update(zip(shape.positional, args, strict=False))
    left = args[len(shape.positional) :]
    if shape.rest:
        bound.rest += left
    else:
        bound.extra.update(enumerate(left, len(shape.positional)))
    for key, value in kwargs.items():
        name = shape.spelled.get(key, "")
        if name == shape.rest and name and not bound.rest:
            bound.rest.append(value)  # `size=(2, 3)` is the tuple that a call may also give without a keyword
        elif name and name != shape.rest and name not in bound.named:
            bound.named[name] = value
        else:
            bound.extra[key] = value
    return bound
