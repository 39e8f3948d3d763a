"""What a program does to tensors between the calls of a target is found, and done again before calls of the check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import between_calls
from cudagraph_skill.capture.guest.between_calls import IN_PLACE, MEMORY, TENSOR

if TYPE_CHECKING:
    from collections.abc import Callable


def layer() -> Any:
    """Return a module with everything that a program may change between its calls."""
    made = torch.nn.Module()
    made.weight = torch.nn.Parameter(torch.ones(3))
    made.register_buffer("seen", torch.zeros(3))
    made.mask = torch.ones(3)
    made.count = torch.zeros((), dtype=torch.int64)
    return made


def changed(module: Any, change: Callable[[Any], Any]) -> list[between_calls.Given]:
    """Return what is found of a change between two calls."""
    between = between_calls.Between()
    between.left([("self", module)])
    change(module)
    return between.given([("self", module)])


def _step(module: Any) -> None:
    with torch.no_grad():
        module.weight -= 0.5


CHANGES: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "an optimizer": (_step, "self.weight", IN_PLACE),
    "a buffer that is emptied": (lambda module: module.seen.fill_(2), "self.seen", IN_PLACE),
    "a count": (lambda module: module.count.add_(1), "self.count", IN_PLACE),
    "another mask": (lambda module: setattr(module, "mask", torch.zeros(3)), "self.mask", TENSOR),
    "a longer mask": (lambda module: setattr(module, "mask", torch.zeros(5)), "self.mask", TENSOR),
    "another buffer": (lambda module: setattr(module, "seen", torch.full((3,), 2.0)), "self.seen", TENSOR),
    "other memory of a weight": (lambda module: setattr(module.weight, "data", torch.zeros(3)), "self.weight", MEMORY),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_and_made_again(name: str) -> None:
    change, path, how = CHANGES[name]
    one, other = layer(), layer()
    given = changed(one, change)
    assert [(each.path, each.how) for each in given] == [(path, how)]
    before = getattr(other, path.removeprefix("self."))
    memory = before.data_ptr()
    held = between_calls.put([("self", other)], given)
    after = getattr(other, path.removeprefix("self."))
    assert torch.equal(after, getattr(one, path.removeprefix("self.")))
    assert (after is before) is (how != TENSOR)
    assert (after.data_ptr() == memory) is (how == IN_PLACE)
    assert [each.data_ptr() for each in held] == [after.data_ptr()]
    assert after.data_ptr() != given[0].values.data_ptr()


def test_what_stays_is_not_given_again() -> None:
    assert changed(layer(), lambda module: setattr(module, "mask", module.mask.detach())) == []
    assert changed(layer(), torch.nn.Module.eval) == []


def test_before_the_first_call_nothing_is_known() -> None:
    assert between_calls.Between().given([("self", layer())]) == []


def test_a_new_gradient_is_given_in_place() -> None:
    one = layer()
    one.weight.grad = torch.zeros(3)
    given = changed(one, lambda module: setattr(module.weight, "grad", torch.ones(3)))
    assert [(each.path, each.how) for each in given] == [("self.weight.grad", IN_PLACE)]


def test_giving_values_does_not_move_the_version_of_a_weight() -> None:
    given = changed(layer(), _step)
    other = layer()
    version = other.weight._version
    between_calls.put([("self", other)], given)
    assert other.weight._version == version


def test_what_does_not_fit_is_said() -> None:
    said = between_calls.notes([], {"self.weight", "self.seen"}, wrong=False)
    assert said == [
        "the program changes self.seen, self.weight between calls, and memory for their values was short: "
        "the check leaves them as its own calls do"
    ]


def test_a_tensor_that_is_replaced_is_named_only_where_a_replay_is_wrong() -> None:
    given = changed(layer(), CHANGES["another mask"][0])
    assert between_calls.notes([given], set(), wrong=False) == []
    assert "puts a new tensor in self.mask" in between_calls.notes([given], set(), wrong=True)[0]


def test_large_tensors_of_the_host_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_calls, "_ON_HOST", 16)  # bytes
    between, one = between_calls.Between(), layer()
    between.left([("self", one)])
    _step(one)
    one.seen.fill_(2)
    assert [each.path for each in between.given([("self", one)])] == ["self.weight"]
    assert between.left_out == {"self.seen"}


@pytest.mark.parametrize("dtype", [torch.uint16, torch.complex64, torch.float8_e4m3fn, torch.bool, torch.int64])
def test_a_mark_of_any_dtype_is_a_number(dtype: Any) -> None:
    assert between_calls._norm(torch.ones(4).to(dtype)) in (0.0, 4.0)
