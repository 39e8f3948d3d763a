"""What functions of Python and of the standard library do to values that are known, and which calls change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudagraph_skill.config.input.record import Record
from cudagraph_skill.config.settings import Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST = 10_000  # elements of a list
_QUIET = frozenset(
    "bool callable float hash id int isinstance issubclass len max min pprint print print_rank_0 repr round str sum type super".split()
)
_QUIET_OWNERS = frozenset("json log logger logging math np numpy os random re sys time torch warnings _logger".split())


def _listed(values: Any) -> list[Any]:
    return [list(value) if isinstance(value, tuple) else value for value in values]


def _counted(*bounds: int) -> list[int]:
    return list(range(*bounds)[:_LONGEST])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "all": all,
    "any": any,
    "bool": bool,
    "dict": dict,
    "enumerate": lambda values, start=0: _listed(enumerate(values, start)),
    "float": float,
    "int": int,
    "len": len,
    "list": _listed,
    "max": max,
    "min": min,
    "range": _counted,
    "reversed": lambda values: list(reversed(values)),
    "set": lambda values=(): list(dict.fromkeys(values)),
    "sorted": sorted,
    "str": str,
    "sum": sum,
    "tuple": _listed,
    "zip": lambda *values: _listed(zip(*values, strict=False)),
}
_OF_RECORDS = frozenset("enumerate list reversed tuple zip".split())  # these hand on what is in a list


def computed(name: str, arguments: Sequence[Any]) -> Any:
    """Return what a function of Python gives for these values; NotImplemented where that is not known."""
    if name not in _FUNCTIONS or any(isinstance(argument, (Unread, Record)) for argument in arguments):
        return NotImplemented
    if name not in _OF_RECORDS and not all(plain(argument) for argument in arguments):
        return NotImplemented
    return _FUNCTIONS[name](*arguments)


def plain(value: object) -> bool:
    """Return whether all of a value is known."""
    if isinstance(value, dict):
        return all(plain(one) for one in value.values())
    return all(plain(one) for one in value) if isinstance(value, list) else not isinstance(value, (Unread, Record))


def is_quiet(name: str) -> bool:
    """Return whether a call changes no configuration that it gets."""
    return name in _QUIET or name.partition(".")[0] in _QUIET_OWNERS
