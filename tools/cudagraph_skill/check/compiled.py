"""Say what `torch.compile(mode="reduce-overhead")` leaves out of its CUDA graphs: it runs that without one, so these are notes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_skill.check.findings import LEFT_OUT, UNREAD_BODY
from cudagraph_skill.check.interpreter.capture_sites import path_to
from cudagraph_skill.check.interpreter.values import Bound, External, Function, Instance, Object, Partial, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cudagraph_skill.check.findings import Finding, Region
    from cudagraph_skill.check.input.source import Source
    from cudagraph_skill.check.interpreter.captures import Reader

# Host reads, results whose size the data decide, and copies to the CPU: dynamo breaks its graph there, or inductor splits it.
_BREAKS = {f"CG{number}" for number in (108, *range(201, 206), 208, 209, *range(210, 219), 224)}
_UPLOAD = "copies unpinned CPU memory"  # of the messages under CG221: a number that is written there is traced
_STATIC = re.compile(r"\bmark_static_(address|input)\w*\(")


def notes(
    regions: dict[Region, list[Value]], make: Callable[[Source], Reader], wanted: Callable[[Reader], Iterable[Finding]]
) -> Iterator[str]:
    """Yield what keeps compiled functions from being one CUDA graph each; each is read by a reader of its own."""
    for region, functions in regions.items():
        if functions and all(map(_is_of_torch, functions)):
            continue
        bodies = {body.node: body for function in functions if (body := _body(function)) is not None}
        whole = bool(bodies)
        for body in bodies.values():
            source: Source = body.module.source
            reader = make(source)
            whole = reader.compiled_body(path_to(body.module.tree, body.node)) and whole
            yield from _of_findings(item for item in wanted(reader) if not _is_asserted(item, reader))
            yield from _of_writes(region, reader, source.text)
        if not whole:
            yield f"{region.path}:{region.line}: {UNREAD_BODY}"


def _body(value: Value | None) -> Function | None:
    """Return the function that a compiled callable runs; None where that is not code of the user's."""
    while isinstance(value, (Partial, Bound, Instance)):
        if isinstance(value, Instance):
            member = value.cls.find("forward") or value.cls.find("__call__")
            value = member[1] if member else None
        else:
            value = value.function
    return value if isinstance(value, Function) and not value.module.installed else None


def _is_of_torch(value: Value) -> bool:
    """Tell whether a compiled callable is a layer or a function of torch's own: there is no code of the user's in it."""
    return isinstance(value, (Object, External)) and value.name.startswith("torch.")


def _is_asserted(item: Finding, reader: Reader) -> bool:
    """Tell whether a finding is the condition of an `assert`, which dynamo traces as an assertion on the GPU."""
    opened = reader.project.sources().get(item.path)
    line = opened.text.splitlines()[item.line - 1 : item.line] if opened is not None and item.id == "CG202" else []
    return any(text.lstrip().startswith("assert ") for text in line)


def _of_findings(findings: Iterable[Finding]) -> Iterator[str]:
    for item in findings:
        upload = item.id == "CG221" and _UPLOAD in item.message
        if item.id in _BREAKS or upload:
            unless = ", unless it can make the tensor on the GPU" * upload
            yield f"{item.path}:{item.line}: {LEFT_OUT} this out of its CUDA graphs{unless}: {item.message} ({item.id})"


def _of_writes(region: Region, reader: Reader, text: str) -> Iterator[str]:
    if _STATIC.search(text):  # which tensors are marked is not followed
        return
    place = f"line {region.line}" if region.path == reader.project.main.path else f"{region.path}:{region.line}"
    static = _static(reader)
    for (path, line, _), (written, storages) in reader.machine.inputs_written.items():
        if storages & static:
            continue
        yield (
            f"{path}:{line}: {LEFT_OUT} what it compiles in {place} without a CUDA graph: {written} writes to a "
            "tensor that is made outside (mutated inputs), unless a compiled function gave it; return the result, or write to a "
            "buffer of a module"
        )


def _static(reader: Reader) -> set[int]:
    """Return the memory of parameters and buffers, which torch.compile takes as it lies."""
    machine = reader.machine
    made: list[Value] = [instance for instances in machine.instances.values() for instance in instances]
    holders = [*made, *(value for module in reader.project.modules() for value in module.scope.slots.values())]
    tensors = [tensor for holder in holders for tensor in machine.library.tensors_of(machine, holder)]
    return {memory for tensor in tensors if tensor.parameter for memory in tensor.storages}
