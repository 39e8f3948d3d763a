"""Rows name operations and parameters that torch has."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

import operations
import pytest
from cudagraph_skill.check import hazards
from cudagraph_skill.check.library.binding import signature
from cudagraph_skill.check.library.parameters import SIGNATURES
from cudagraph_skill.check.library.torch import ops

if TYPE_CHECKING:
    from collections.abc import Iterator

HOMES = {"torch": "torch", "rnn": "torch.nn.utils.rnn", "init": "torch.nn.init"}  # beside torch.linalg, torch.sparse, …
# C functions without a schema or a signature line: what their documentation says was compared by hand
UNREADABLE = {"__bool__", "__float__", "__index__", "__int__", "_is_view", "is_anomaly_enabled", "torch.Tensor"}
NUMPY = {
    "axis",
    "keepdims",
    "x",
    "a",
    "x1",
    "x2",
}  # other names of dim, keepdim, input and other, of which schemas do not speak


def torch_functions(name: str) -> list[Any]:
    """Return what torch has under the name of a row."""
    torch = pytest.importorskip("torch")
    home, _, last = name.rpartition(".")
    places = [torch.Tensor] if home == "Tensor" else [importlib.import_module(HOMES.get(home, f"torch.{home}"))] if home else [
        torch, torch.nn.functional, torch.Tensor]  # fmt: skip
    return [getattr(place, last) for place in places if hasattr(place, last)]


@cache
def schemas() -> dict[str, list[list[str]]]:
    """Return the parameters of each overload of each operator, by its name."""
    torch = pytest.importorskip("torch")
    by_name: dict[str, list[list[str]]] = defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            by_name[schema.name.removeprefix("aten::")].append([argument.name for argument in schema.arguments])
    return by_name


def documented(function: Any) -> Iterator[list[str]]:
    """Yield the parameters that a signature or the first lines of a documentation name."""
    with contextlib.suppress(TypeError, ValueError):
        yield [
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
    for line in re.findall(r"\w+\(([^()]*(?:\([^()]*\)[^()]*)*)\) *->", inspect.getdoc(function) or ""):
        yield [part.partition("=")[0].partition(":")[0].strip(" *\\") for part in line.split(",")]


def overloads(name: str) -> list[list[str]]:
    """Return the parameters of every known overload of an operation."""
    home, _, last = name.rpartition(".")
    names = (
        {f"{home}_{last}"}
        if home in {"linalg", "fft"}
        else {f"_{home}_{last}", f"{home}_{last}"}
        if home == "sparse"
        else {last}
    )
    found = [parameters for each in names for parameters in schemas().get(each, [])]
    for function in torch_functions(name):
        is_method = inspect.ismethoddescriptor(function) or "Tensor" in getattr(function, "__qualname__", "").split(".")[0]
        for parameters in documented(function):
            found += [["self", *parameters] if is_method and parameters[:1] not in (["self"], ["input"]) else parameters]
    return [["input" if word == "self" else word for word in parameters] for parameters in found]


def _release(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


ALL = [pytest.param(row, name, id=name) for row in ops.rows() for name in row.names]


@pytest.mark.parametrize(("row", "name"), ALL)
def test_torch_has_the_operation_and_its_parameters(row: ops.Operation, name: str) -> None:
    if row.since and _release(pytest.importorskip("torch").__version__) < _release(row.since):
        return
    assert torch_functions(name), f"torch has no {name}"
    known = overloads(name)
    assert bool(known) == (name not in UNREADABLE)
    if not known:
        return
    shape = signature(row.signature)
    spelled = {word for parameters in known for word in parameters}
    unknown = [word for word in shape.spelled if word not in spelled and word not in NUMPY]
    assert not unknown, f"{name}: torch has no {unknown}, only {sorted(spelled)}"
    for place, parameter in enumerate(shape.positional):
        spellings = {word for word, into in shape.spelled.items() if into == parameter}
        assert any(parameters[place : place + 1] and parameters[place] in spellings for parameters in known), (
            f"{name}: {parameter} is not argument {place + 1} of {known}"
        )


def test_no_operation_has_two_rows() -> None:
    names = [name for row in ops.rows() for name in row.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", ops.rows(), ids=lambda row: row.names[0])
def test_rows_speak_of_their_own_parameters_and_of_known_hazards(row: ops.Operation) -> None:
    names = signature(row.signature).names
    assert {*row.numbers, *row.sizes, *row.places} <= {*names}
    assert all(failure.hazard in hazards.table() and failure.because for failure in row.failures)
    assert all(hazards.hazard(failure.hazard).severity == "error" for failure in row.failures)


# Rows of which no probe shows the failure: a GPU saw them in a fixture or beside another operation of the same solver.
UNSEEN = set(
    "Tensor.where __array__ cholesky histogram linalg.cholesky_ex linalg.eig linalg.ldl_factor linalg.lu_factor_ex "
    "linalg.norm norm linalg.solve_ex linalg.tensorsolve matmul matrix_power mm nested.nested_tensor numpy pca_lowrank "
    "pinverse sparse.addmm sparse.sampled_addmm svd to_sparse_coo".split()
)


def test_a_failure_is_shown_by_a_probe_that_failed() -> None:
    failing = {probe.key.partition(": ")[2] for probe in operations.probes() if probe.verdict == "error"}
    assert [(row.names[0], row.seen) for row in ops.rows() if row.seen and row.seen not in failing] == []
    assert {row.names[0] for row in ops.rows() if row.failures and not row.seen} == UNSEEN


def test_torch_takes_numpys_names() -> None:
    torch = pytest.importorskip("torch")
    ones = torch.ones(2, 3)
    assert torch.sum(a=ones, axis=0, keepdims=True).shape == (1, 3)
    assert torch.add(x1=ones, x2=ones).sum() == 12
    shape = signature("input, dim, keepdim")
    assert [shape.spelled[word] for word in ("a", "x", "axis", "keepdims")] == ["input", "input", "dim", "keepdim"]


@pytest.mark.parametrize("name", sorted({name for row in ops.rows() if row.parts for name in row.names}))
def test_parts_of_a_tuple_have_torchs_names(name: str) -> None:
    torch = pytest.importorskip("torch")
    row = ops.find(f"torch.{name}")
    fields = getattr(torch.return_types, name.replace(".", "_"), None)
    if fields is None:
        assert name in {"aminmax", "batch_norm_stats", "lobpcg", "lu", "pca_lowrank", "std_mean", "svd_lowrank", "var_mean"}
        return
    made = fields(range(len(row.parts)))
    assert [getattr(made, part) for part in row.parts] == [*range(len(row.parts))]


@pytest.mark.parametrize("name", [name for name in SIGNATURES if name.startswith("torch.")])
def test_what_is_no_operation_has_the_parameters_that_torch_has(name: str) -> None:
    pytest.importorskip("torch")
    home, _, last = name.removesuffix(".forward").rpartition(".")
    try:
        function = getattr(importlib.import_module(home), last)
    except ModuleNotFoundError:
        owner, _, inner = home.rpartition(".")
        function = getattr(getattr(importlib.import_module(owner), inner), last)
    function = function.forward if name.endswith(".forward") else function
    parameters = [word for word in inspect.signature(function).parameters if word != "self"]
    row = signature(SIGNATURES[name])
    if parameters != ["args", "kwargs"]:  # recurrent layers: their documentation has them in this order
        assert list(row.positional) == parameters[: len(row.positional)]
        assert set(row.keyword_only) <= set(parameters)
