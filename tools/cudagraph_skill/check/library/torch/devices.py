"""Where a tensor is, and of which kind its numbers are, as an argument or an attribute says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.values import Host, Value, is_none

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.machine import Machine

_FLOATS = {"torch.float32", "torch.float", "torch.float16", "torch.half", "torch.bfloat16", "torch.float64", "torch.double"}
_INTS = {"torch.int64", "torch.long", "torch.int32", "torch.int", "torch.int16", "torch.int8", "torch.uint8", "torch.short"}
DTYPES = {**dict.fromkeys(_FLOATS, "float"), **dict.fromkeys(_INTS, "int"), "torch.bool": "bool"}


def where_of(machine: Machine, argument: Value | None) -> str:
    """Return the device that an argument names: cuda, cuda:other for a second GPU, cpu, or "" for unknown."""
    if argument is None or is_none(argument):
        return machine.torch.default_device
    name = argument.value if isinstance(argument, Host) and argument.known else None
    if isinstance(name, str):
        if name.startswith("cpu"):
            return "cpu"
        return "" if not name.startswith("cuda") else "cuda" if name[5:] in {"", "0"} else "cuda:other"
    if isinstance(name, int) and not isinstance(name, bool):
        return "cuda:other" if name else "cuda"
    return ""


def dtype_of(argument: Value | None) -> str | None:
    """Return the kind of a dtype: bool, int, float or "" for unknown; None where the argument is no dtype."""
    if isinstance(argument, Host) and argument.kind == "dtype":
        return DTYPES.get(str(argument.value), "")
    return None


def is_true(argument: Value | None) -> bool:
    """Return whether an argument is certainly True."""
    return isinstance(argument, Host) and argument.value is True
