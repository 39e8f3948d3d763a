"""Values are found in whatever holds them, kept exactly, and a difference that counts is never zero."""

from __future__ import annotations

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import tensors
from torch.utils._python_dispatch import TorchDispatchMode

LARGE = 1 << 19  # more elements than are kept of one tensor
Old = namedtuple("Old", "first second")


class Pair(NamedTuple):
    """A tuple with names."""

    x: Any
    n: Any


@dataclass
class Batch:
    """As a loader gives it."""

    ids: Any
    more: list[Any] = field(default_factory=list)


def far(one: Any, other: Any) -> float:
    """Return the difference of two values of one leaf."""
    [a], [b] = tensors.values_to_host(one).values(), tensors.values_to_host(other).values()
    return tensors.difference(a, b)


# Leaves


def test_each_leaf_has_the_path_as_one_writes_it() -> None:
    given = ({"a": [1, (2.5, None)], 7: Pair("s", True)}, Batch(3, [Old(4, {})]))
    assert dict(tensors.leaves(given)) == {
        "[0]['a'][0]": 1,
        "[0]['a'][1][0]": 2.5,
        "[0]['a'][1][1]": None,
        "[0][7].x": "s",
        "[0][7].n": True,
        "[1].ids": 3,
        "[1].more[0].first": 4,
    }


@pytest.mark.parametrize("single", [3, None, "text", torch.ones(2), object])
def test_what_holds_nothing_is_its_own_leaf(single: Any) -> None:
    assert [path for path, _ in tensors.leaves(single)] == [""]


@pytest.mark.parametrize("empty", [(), [], {}, [[], ({},)]])
def test_empty_containers_have_no_leaves(empty: Any) -> None:
    assert list(tensors.leaves(empty)) == []


def test_a_container_that_holds_itself_is_walked_once() -> None:
    around: list[Any] = [1]
    around.append(around)
    assert list(tensors.leaves(around)) == [("[0]", 1)]


def test_tensors_and_numbers_are_told_apart() -> None:
    tensor = torch.ones(1)
    given = {"t": tensor, "n": [2, True, "x", 1j], "o": object()}
    assert tensors.tensors(given) == [tensor]
    assert tensors.numbers(given) == {"['n'][0]": 2, "['n'][1]": True, "['n'][2]": "x", "['n'][3]": 1j}


def test_an_ordered_dict_and_a_structseq_of_torch_are_opened() -> None:
    best = torch.tensor([[1.0, 3.0]]).max(1)
    assert [path for path, _ in tensors.leaves(OrderedDict(m=best))] == ["['m'][0]", "['m'][1]"]


# Differences


ALIKE = {
    "float": torch.tensor([1.0, -2.0]),
    "nan and infinities": torch.tensor([math.nan, math.inf, -math.inf, 1.0]),
    "int": torch.arange(4),
    "uint8": torch.arange(4, dtype=torch.uint8),
    "bool": torch.tensor([True, False]),
    "complex": torch.tensor([1 + 2j, 3 - 1j]),
    "conjugated": torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "bf16": torch.tensor([1.0, 3.0], dtype=torch.bfloat16),
    "float8": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
    "empty": torch.empty(0, 3),
    "scalar": torch.tensor(4.0),
    "sparse": torch.eye(3).to_sparse(),
    "a number": 0.25,
    "a complex number": 2 + 1j,
    "large": torch.arange(LARGE, dtype=torch.float32),
    "large bool": torch.arange(LARGE) % 3 == 0,
    "large uint8": torch.ones(LARGE, dtype=torch.uint8),
    "large complex": torch.ones(LARGE, dtype=torch.complex64),
    "large bf16": torch.ones(LARGE, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_is_equal_to_the_bit_differs_by_nothing(name: str) -> None:
    assert far(ALIKE[name], tensors.copied(ALIKE[name])) == 0.0


OTHER = {
    "nan for a number": (torch.tensor([math.nan, 1.0]), torch.tensor([1.0, 1.0])),
    "nan elsewhere": (torch.tensor([math.nan, 1.0]), torch.tensor([1.0, math.nan])),
    "infinity": (torch.tensor([math.inf, 1.0]), torch.tensor([1.0, 1.0])),
    "sign of infinity": (torch.tensor([math.inf, 1.0]), torch.tensor([-math.inf, 1.0])),
    "shape": (torch.ones(2, 3), torch.ones(3, 2)),
    "number of elements": (torch.ones(2), torch.ones(3)),
}


@pytest.mark.parametrize("name", OTHER)
def test_another_shape_or_another_kind_of_number_is_infinitely_far(name: str) -> None:
    assert far(*OTHER[name]) == math.inf


CHANGED = {
    "int": (torch.arange(100), torch.arange(100).index_fill(0, torch.tensor([7]), 8)),
    "bool": (torch.zeros(100, dtype=torch.bool), torch.arange(100) == 3),
    "number": (1.0, 1.5),
    "flag": (True, False),
    "complex number": (1 + 1j, 1 + 2j),
    "complex": (torch.tensor([1 + 1j]), torch.tensor([1 - 1j])),
    "sparse": (torch.eye(3).to_sparse(), (2 * torch.eye(3)).to_sparse()),
    "bf16": (torch.ones(2, dtype=torch.bfloat16), torch.tensor([1.0, 1.01], dtype=torch.bfloat16)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_changed_is_farther_than_its_tolerance(name: str) -> None:
    one, other = CHANGED[name]
    assert tensors.tolerance(tensors.values_to_host(one)[""]) < far(one, other) < math.inf


def test_a_difference_is_relative_to_the_size_of_the_values() -> None:
    assert far(torch.full((4,), 1000.0), torch.full((4,), 1001.0)) == pytest.approx(1e-3, rel=1e-3)
    assert far(torch.zeros(4), torch.full((4,), 1e-9)) < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_a_change_between_the_elements_that_are_sampled_shows_in_the_sums(dtype: torch.dtype) -> None:
    one = torch.zeros(LARGE).to(dtype)
    other = one.clone()
    other[3] = 1
    assert tensors.to_host(one).data.numel() < LARGE * (1 + dtype.is_complex)
    assert far(one, other) > tensors.tolerance(tensors.to_host(one))


KINDS = [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", KINDS)
def test_a_fingerprint_shows_each_change(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_PART", 8)
    values = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0] * 6).to(dtype)
    seen = {tensors.fingerprint(values.clone()), tensors.fingerprint(values)}
    assert len(seen) == 1
    assert seen != {()}
    for one, other in ((0, 1), (2, 29), (3, 8), (0, 9)):
        changed = values.clone()
        changed[one], changed[other] = values[other], values[one]  # two elements trade places
        assert tensors.fingerprint(changed) not in seen or torch.equal(changed, values)
    for shift in range(1, 5):
        assert tensors.fingerprint(torch.cat([values[shift:], values[:shift]])) not in seen


def test_the_sign_of_a_zero_is_in_a_fingerprint() -> None:
    assert tensors.fingerprint(torch.zeros(4)) != tensors.fingerprint(-torch.zeros(4))


def test_there_is_no_fingerprint_of_what_is_not_in_one_piece() -> None:
    for tensor in (torch.zeros(4, 4).T[:2], torch.zeros(3).to_sparse(), torch.zeros(3, dtype=torch.complex64).conj()):
        assert tensors.fingerprint(tensor) == ()


def test_no_copy_of_a_large_tensor_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sizes(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.new: list[int] = []

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = function(*args, **(kwargs or {}))
            known = {each.untyped_storage().data_ptr() for each in tensors.tensors(args)}
            self.new += [each.nbytes for each in tensors.tensors(found) if each.untyped_storage().data_ptr() not in known]
            return found

    monkeypatch.setattr(tensors, "_PART", 1 << 10)
    large = torch.ones(1 << 20, dtype=torch.bfloat16)
    with Sizes() as sizes:
        tensors.to_host(large)
    assert max(sizes.new) <= 2 << 18  # the sample, of two bytes an element


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_infinity_or_a_nan_between_the_samples_shows_in_the_sums(value: float) -> None:
    one, other = torch.zeros(LARGE), torch.zeros(LARGE)
    other[3] = value
    assert far(one, other) == far(other, one) == math.inf
    one[3] = value
    assert far(one, other) == 0.0


def test_numbers_whose_difference_single_precision_does_not_hold_are_compared() -> None:
    large = torch.full((4,), 3e38)
    assert far(large, -large) == pytest.approx(2.0)
    assert far(large, large * 0.5) == pytest.approx(0.5)


def test_elements_that_swap_signs_between_the_samples_show_in_the_sum_of_absolutes() -> None:
    one, other = torch.zeros(LARGE), torch.zeros(LARGE)
    other[1], other[3] = 1.0, -1.0
    assert far(one, other) > tensors.tolerance(tensors.to_host(one))


def test_the_sums_of_a_large_tensor_do_not_hide_what_its_elements_show() -> None:
    one = torch.ones(LARGE)
    other = one.clone()
    other[0] = 1.001
    assert far(one, other) == pytest.approx(1e-3, rel=1e-2)


def test_a_value_that_the_other_side_lacks_is_infinitely_far() -> None:
    one = tensors.values_to_host({"a": 1, "b": 2})
    assert tensors.differences(one, tensors.values_to_host({"b": 2})) == {"['a']": math.inf, "['b']": 0.0}


def test_what_is_kept_does_not_follow_later_changes() -> None:
    tensor = torch.zeros(3)
    before = tensors.to_host(tensor)
    tensor += 1
    assert before.data.tolist() == [0, 0, 0]


# Copies


def test_put_copies_into_the_tensors_that_were_captured() -> None:
    static: Any = ((torch.zeros(2), {"y": Pair(torch.zeros(1), 3)}), {})
    inside = tensors.tensors(static)
    assert tensors.refill(static, ((torch.ones(2), {"y": Pair(torch.full((1,), 5.0), 3)}), {})) == []
    assert [each.tolist() for each in inside] == [[1, 1], [5]]


def test_put_leaves_the_very_same_tensor_and_a_parameter_that_needs_gradients_alone() -> None:
    same = torch.ones(2, requires_grad=True)
    version = same._version
    assert tensors.refill([same], [same]) == []
    assert same._version == version
    assert tensors.refill([same], [torch.zeros(2)]) == []
    assert same.tolist() == [0, 0]


STUCK = {
    "another shape": (torch.ones(2), torch.ones(3), "shape of argument [0]: (2,) at capture, then (3,)"),
    "another number": (2, 3, "number in argument [0]: 2 at capture, then 3"),
    "another flag": (True, False, "number in argument [0]: True at capture, then False"),
    "another text": ("a", "b", "number in argument [0]: 'a' at capture, then 'b'"),
    "a tensor instead of a number": (2, torch.ones(2), "argument [0]: 2 at capture, then a tensor"),
    "a number instead of a tensor": (torch.ones(2), 2, "argument [0]: a tensor at capture, then 2"),
    "none instead of a tensor": (torch.ones(2), None, "argument [0]: a tensor at capture, then None"),
}


@pytest.mark.parametrize("name", STUCK)
def test_put_says_what_cannot_follow(name: str) -> None:
    static, new, said = STUCK[name]
    assert [*tensors.refill([static], [new]), *tensors.other_numbers([static], [new])] == [said]


def test_put_takes_equal_numbers_and_nan_for_no_change() -> None:
    assert tensors.refill([1, math.nan, "s", None], [1, math.nan, "s", None]) == []
    assert tensors.other_numbers([1, math.nan, "s", None], [1, math.nan, "s", None]) == []


def test_a_copy_has_tensors_of_its_own_and_everything_else_as_it_is() -> None:
    thing = object()
    given = {"t": [torch.ones(2, requires_grad=True)], "p": Pair(torch.ones(1), thing), "b": Batch(torch.ones(1))}
    copy = tensors.copied(given)
    assert copy["p"].n is thing
    assert copy["t"][0].requires_grad
    assert type(copy["p"]) is Pair
    assert type(copy["b"]) is Batch
    assert not {id(each) for each in tensors.tensors(copy)} & {id(each) for each in tensors.tensors(given)}
    assert all(torch.equal(a, b) for a, b in zip(tensors.tensors(copy), tensors.tensors(given), strict=True))


@pytest.mark.parametrize(
    ("given", "path", "wanted"),
    [
        (([1, 2.5], {"f": True}), "[0][1]", ([1, 3.5], {"f": True})),
        (([1, 2.5], {"f": True}), "[1]['f']", ([1, 2.5], {"f": False})),
        ((Pair(1, 2),), "[0].n", (Pair(1, 3),)),
        (("s",), "[0]", ("s",)),
    ],
)
def test_another_number_stands_at_the_one_place_that_is_named(given: Any, path: str, wanted: Any) -> None:
    assert tensors.other_number(given, path) == wanted


def test_numbers_of_the_capture_stand_in_later_arguments() -> None:
    def given(step: int, text: str) -> Any:
        return (torch.full((2,), float(step)), [step, {"mode": text}]), {"rate": step / 2}

    later = tensors.renumbered(given(5, "b"), tensors.numbers(given(3, "a")))
    assert tensors.numbers(later) == tensors.numbers(given(3, "a"))
    assert later[0][0].tolist() == [5, 5]


class _Holder:
    def __init__(self) -> None:
        self.tensor = torch.zeros(2)


def test_an_object_that_comes_again_is_state_and_one_that_is_new_each_time_a_batch() -> None:
    class Batch(_Holder):
        pass

    class Cache(_Holder):
        pass

    met: dict[Any, Any] = {}
    keys, queries, model = Cache(), Cache(), torch.nn.Linear(1, 1)
    assert tensors.state_among((Batch(), keys, queries, model), met) == [model]
    assert tensors.state_among((Batch(), keys, queries, model), met) == [keys, queries, model]
    assert [path for path, _ in tensors.leaves((Batch(), keys))] == ["[0].tensor", "[1]"]
    assert tensors.state_among((Cache(),), {}) == []
    assert [path for path, _ in tensors.leaves((Cache(),))] == ["[0]"]


def test_a_copied_batch_has_tensors_of_its_own() -> None:
    class Batch(_Holder):
        pass

    met: dict[Any, Any] = {}
    for _ in range(2):
        tensors.state_among((Batch(),), met)
    batch = Batch()
    tensors.copied(batch).tensor.add_(1)
    assert batch.tensor.sum() == 0


# Largest and mean


def _mean(one: torch.Tensor, other: torch.Tensor) -> float:
    return tensors.mean_difference(tensors.to_host(one), tensors.to_host(other))


def test_one_element_that_turns_over_is_far_by_the_largest_difference_and_near_in_the_mean() -> None:
    value = torch.ones(10_000)
    turned = value.clone()
    turned[7] = 1.5
    assert far(value, turned) == pytest.approx(0.5, rel=1e-3)
    assert _mean(value, turned) == pytest.approx(0.005, rel=1e-3)


def test_what_is_off_everywhere_is_as_far_in_the_mean() -> None:
    value = torch.ones(64)
    assert _mean(value, value + 0.25) == far(value, value + 0.25)


def test_elements_of_a_large_tensor_that_were_not_copied_count_by_their_share_of_the_sums() -> None:
    value = torch.ones(1 << 20)
    changed = value.clone()
    changed[1::4] = 2.0
    assert _mean(value, changed) == pytest.approx(0.25, rel=1e-3)
    assert far(value, changed) > 100  # as if each element were off on its own


def test_shapes_that_differ_are_infinitely_far_in_the_mean() -> None:
    assert _mean(torch.ones(3), torch.ones(4)) == math.inf
