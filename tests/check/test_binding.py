"""Arguments by position and by keyword are the same arguments."""

from __future__ import annotations

import pytest
from cudagraph_skill.check.interpreter.values import Value
from cudagraph_skill.check.library.binding import bind, signature
from hypothesis import given
from hypothesis import strategies as st

A, B, C = Value(), Value(), Value()


def test_a_signature_is_parsed_as_a_def_would_be() -> None:
    parsed = signature("input, dim|axis=None, *size, out=None, dtype")
    assert parsed.positional == ("input", "dim")
    assert parsed.rest == "size"
    assert parsed.keyword_only == ("out", "dtype")
    assert parsed.names == ("input", "dim", "size", "out", "dtype")


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [([A, B], {}), ([A], {"dim": B}), ([A], {"axis": B}), ([], {"dim": B, "input": A}), ([], {"axis": B, "input": A})],
)
def test_position_and_keyword_give_the_same_arguments(args: list[Value], kwargs: dict[str, Value]) -> None:
    bound = bind("input, dim|axis=None, *, out=None", args, kwargs)
    assert bound.named == {"input": A, "dim": B}
    assert bound.values() == [A, B]
    assert bound.get("out") is None


@pytest.mark.parametrize("call", [([A, B, C], {}), ([A, B], {"out": C})])
def test_a_keyword_only_parameter_takes_no_place(call: tuple[list[Value], dict[str, Value]]) -> None:
    bound = bind("input, dim, *, out", *call)
    assert bound.get("out") is (C if call[1] else None)
    assert bound.values() == [A, B, C]


def test_a_star_collects_the_rest() -> None:
    assert bind("input, *size, dtype", [A, B, C], {}).rest == [B, C]
    assert bind("*size, dtype", [], {"size": B, "dtype": C}).given(["size", "dtype"]) == [B, C]


@given(
    text=st.sampled_from(["", "input", "input, dim=None", "*size, dtype", "input, *, out", "a|b, c|d"]),
    places=st.integers(0, 5),
    names=st.sets(st.sampled_from(["input", "dim", "size", "out", "dtype", "a", "b", "c", "d", "", "unknown"])),
)
def test_wrong_calls_lose_no_argument(text: str, places: int, names: set[str]) -> None:
    args, kwargs = [Value() for _ in range(places)], {name: Value() for name in names}
    assert sorted(map(id, bind(text, args, kwargs).values())) == sorted(map(id, [*args, *kwargs.values()]))
