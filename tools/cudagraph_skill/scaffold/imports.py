"""Imports of a rendered program: exactly those that its code uses, in the order of isort."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_WIDTH = 120  # columns of a line
_MODULES = {"dist": "torch.distributed", "F": "torch.nn.functional"}  # by the name that a program gives them
_MEMBERS = {  # and the modules that other names come from
    "Any": "typing",
    "Callable": "collections.abc",
    "DataLoader": "torch.utils.data",
    "DistributedDataParallel": "torch.nn.parallel",
    "FSDPModule": "torch.distributed.fsdp",
    "MixedPrecisionPolicy": "torch.distributed.fsdp",
    "Sequence": "collections.abc",
    "Tensor": "torch",
    "TensorDataset": "torch.utils.data",
    "bisect_left": "bisect",
    "cache": "functools",
    "fully_shard": "torch.distributed.fsdp",
    "get_manager": "torch._inductor.cudagraph_trees",
    "nn": "torch",
    "nullcontext": "contextlib",
}
_PLAIN = ("copy", "gc", "io", "json", "math", "operator", "os", "statistics", "time", "torch")


def defined(code: str) -> set[str]:
    """Return the names that code defines at its top level."""
    names: set[str] = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            stores = (name for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))
            names |= {name.id for name in stores if isinstance(name.ctx, ast.Store)}
    return names


def imports(code: str, moved: Mapping[str, str], own: str = "", offered: Sequence[str] = ()) -> str:
    """Return the import statements that code needs.

    Args:
        code: The program below its imports.
        moved: Modules of torch that have another name in the release that the program is written for.
        own: Another file of the program, a module.
        offered: Names that this module defines.
    """
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)} - defined(code)
    plain = [name for name in _PLAIN if name in used]
    members: dict[str, list[str]] = {}
    for name in sorted(used & _MEMBERS.keys(), key=_place):
        members.setdefault(moved.get(_MEMBERS[name], _MEMBERS[name]), []).append(name)
    standard = [f"import {name}" for name in plain if name != "torch"]
    torch = [*(f"import {name}" for name in plain if name == "torch")]
    torch += sorted(f"import {_MODULES[name]} as {name}" for name in used & _MODULES.keys())
    for module, names in sorted(members.items()):
        (torch if module.partition(".")[0] == "torch" else standard).append(_from(module, names))
    mine = [_from(own, sorted(used.intersection(offered), key=_place))] if own else []
    return "\n\n".join("\n".join(section) for section in (standard, torch, mine) if section)


def _place(name: str) -> tuple[int, str]:
    """Order names as isort does: constants, classes, all else."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name)


def _from(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= _WIDTH else f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"
