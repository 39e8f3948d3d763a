"""All that a call can change is found, and is to the bit what it was after it was put back."""

# ruff: noqa: E501 - a program as a user writes it stands on one line
from __future__ import annotations

import functools
import random
import sys
from collections import OrderedDict, deque
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import state, tensors
from user_files import imported

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """
    import copy
    import random
    from collections import deque
    from dataclasses import dataclass

    import torch

    STEPS = 0
    HISTORY = {"losses": []}
    CACHE = torch.zeros(3)


    @dataclass(slots=True)
    class Meter:
        count: int = 0


    class Trainer:
        seen = 0
        table = {}

        def __init__(self):
            self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.1)
            self.ema = copy.deepcopy(self.net.state_dict())
            self.mean = torch.zeros(1)
            self.queue = deque([1, 2, 3], maxlen=4)
            self.log, self.kinds, self.rate = [], {"train"}, 0.5
            self.meter = Meter()
            self.frozen = torch.nn.Parameter(torch.ones(2))
            self.swapped = torch.nn.Parameter(torch.ones(2))
            self.own = torch.Generator().manual_seed(7)
            self.dice = random.Random(3)
            self.first = True

        def step(self, x):
            global STEPS
            STEPS += 1
            Trainer.seen += 1
            Trainer.late = STEPS
            Trainer.table[STEPS] = x
            self.meter.count += 1
            loss = self.net(x).square().mean() + torch.randn(()) + torch.rand((), generator=self.own)
            loss = loss + random.random() + self.dice.random()
            loss.backward()
            loss = loss.detach()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=STEPS % 2 == 0)
            self.optimizer.param_groups[0]["lr"] *= 0.9
            for name, each in self.net.state_dict().items():
                self.ema[name] = self.ema[name] + 0.1 * each
            self.mean = self.mean * 0.9 + loss
            self.queue.rotate(1)
            self.queue.append(STEPS)
            self.log.append(float(loss))
            self.kinds.add(str(STEPS))
            HISTORY["losses"].append(float(loss))
            CACHE.add_(1)
            self.frozen.requires_grad_(not self.frozen.requires_grad)
            self.swapped.data = torch.full((3,), float(STEPS))
            self.rate, self.first, self.new = self.rate / 2, False, "made by the call"
            return loss


    def counting():
        count, total = 0, torch.zeros(1)

        def call(x):
            nonlocal count
            count += 1
            total.add_(x.sum() * count)
            call.last = count
            return total.clone()

        return call


    def lazily(x):
        global MADE
        if "MADE" not in globals():
            MADE = x.clone()
        return MADE + x
"""


@pytest.fixture
def train(tmp_path: Path) -> Any:
    torch.manual_seed(0)
    return imported(tmp_path / "train.py", TRAIN)


def roots(function: Any) -> list[tuple[str, Any]]:
    return [("", function)]


def found(function: Any) -> dict[str, Any]:
    """Return the values below a callable by path."""
    return {path: value for path, value in state.walk(roots(function)) if path}


def saved(function: Any) -> state.Snapshot:
    return state.Snapshot(roots(function), 1 << 30)


# Found


def test_a_method_reaches_all_that_its_object_holds(train: Any) -> None:
    trainer = train.Trainer()
    trainer.step(torch.ones(4, 3))
    by_path = state.tensors(roots(trainer.step))
    held = {id(each) for each in by_path.values()}
    entries = [each for entry in trainer.optimizer.state.values() for each in entry.values()]
    wanted = [*trainer.net.parameters(), *trainer.net.buffers(), *entries, *trainer.ema.values(), trainer.mean, train.CACHE]
    assert {id(each) for each in wanted} <= held
    assert by_path[".net.1.running_mean"] is trainer.net[1].running_mean
    assert by_path[".net.0.weight"] is trainer.net[0].weight


def test_gradients_are_found_at_their_parameters(train: Any) -> None:
    net = train.Trainer().net
    net(torch.ones(4, 3)).sum().backward()
    assert state.tensors(roots(net))[".0.weight.grad"] is net[0].weight.grad


def test_numbers_have_the_names_that_one_writes(train: Any) -> None:
    trainer = train.Trainer()
    scalars = state.scalars(roots(trainer.step))
    wanted = {
        ".rate": 0.5,
        ".first": True,
        "STEPS": 0,
        "len(.queue)": 3,
        "len(HISTORY['losses'])": 0,
        ".meter.count": 0,
        ".seen": 0,
    }
    assert {path: scalars.get(path) for path in wanted} == wanted
    assert scalars[".optimizer.param_groups[0]['lr']"] == 0.1
    assert scalars[".net.2.p"] == 0.5


def test_a_layer_is_no_number_itself(train: Any) -> None:
    assert not {".0", ".1", ".2", ".net", ".net.0"} & set(state.scalars(roots(train.Trainer().step)))


def test_a_variable_that_an_inner_function_sees_keeps_its_name(tmp_path: Path) -> None:
    user = imported(
        tmp_path / "inner.py", "COUNT = 3\n\ndef helper(x):\n    return x * COUNT\n\ndef step(x):\n    return helper(x)\n"
    )
    assert state.scalars(roots(user.step)) == {"helper:COUNT": 3}


REACHED = {
    "closure": "def make():\n    t = torch.ones(1)\n    return lambda: t\n\nfn = make()",
    "global": "T = torch.ones(1)\n\ndef fn():\n    return T",
    "global of a helper": "T = torch.ones(1)\n\ndef inner():\n    return T\n\ndef fn():\n    return inner()",
    "global of a function inside": "T = torch.ones(1)\n\ndef fn():\n    return [T for _ in range(2)], (lambda: T)",
    "default": "def fn(t=torch.ones(1)):\n    return t",
    "keyword default": "def fn(*, t=torch.ones(1)):\n    return t",
    "attribute of the function": "def fn():\n    return fn.t\n\nfn.t = torch.ones(1)",
    "class attribute": "class A:\n    t = torch.ones(1)\n\n    def go(self):\n        return self.t\n\nfn = A().go",
    "attribute of a base class": "class A:\n    t = torch.ones(1)\n\nclass B(A):\n    def go(self):\n        return self.t\n\nfn = B().go",
    "static method": "T = torch.ones(1)\n\nclass A:\n    @staticmethod\n    def go():\n        return T\n\ndef fn():\n    return A.go()",
    "class method": "T = torch.ones(1)\n\nclass A:\n    @classmethod\n    def go(cls):\n        return T\n\nfn = A.go",
    "property": "T = torch.ones(1)\n\nclass A:\n    @property\n    def p(self):\n        return T\n\n    def go(self):\n        return self.p\n\nfn = A().go",
    "slots": "class A:\n    __slots__ = ('t',)\n\n    def go(self):\n        return self.t\n\na = A()\na.t = torch.ones(1)\nfn = a.go",
    "partial": "fn = functools.partial(max, torch.ones(1))",
    "keyword of a partial": "fn = functools.partial(max, key=[torch.ones(1)])",
    "object with __call__": "class A:\n    def __init__(self):\n        self.t = torch.ones(1)\n\n    def __call__(self):\n        return self.t\n\nfn = A()",
    "decorated": "T = torch.ones(1)\n\n@torch.no_grad()\ndef fn():\n    return T",
    "cached": "T = torch.ones(1)\n\n@functools.cache\ndef fn():\n    return T",
    "wrapped": "T = torch.ones(1)\n\ndef deco(f):\n    @functools.wraps(f)\n    def call():\n        return f()\n    return call\n\n@deco\ndef fn():\n    return T",
    "generator": "def feed():\n    t = torch.ones(1)\n    while True:\n        yield t\n\nG = feed()\nnext(G)\n\ndef fn():\n    return next(G)",
    "deque of dicts": "Q = deque([{'a': (torch.ones(1),)}])\n\ndef fn():\n    return Q",
    "set": "S = {torch.ones(1)}\n\ndef fn():\n    return S",
    "namespace": "N = types.SimpleNamespace(t=torch.ones(1))\n\ndef fn():\n    return N",
    "optimizer": "P = torch.nn.Parameter(torch.ones(1))\nO = torch.optim.SGD([P], lr=1)\n\ndef fn():\n    O.step()",
    "hook": "L = torch.nn.Identity()\nt = torch.ones(1)\nL.register_forward_hook(lambda *a, t=t: t)\n\ndef fn(x):\n    return L(x)",
}  # fmt: skip


@pytest.mark.parametrize("way", REACHED)
def test_a_tensor_is_found_whichever_way_a_function_reaches_it(tmp_path: Path, way: str) -> None:
    head = "import functools\nimport types\nfrom collections import deque\n\nimport torch\n\n\n"
    user = imported(tmp_path / "reached.py", head + REACHED[way])
    assert len(state.tensors(roots(user.fn))) == 1


def test_an_object_of_a_file_named_as_a_library_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = imported(
        tmp_path / "profile.py", "class A:\n    def __init__(self):\n        self.n = 1\n\n    def go(self):\n        pass\n"
    )
    user.A.__module__ = "profile"
    monkeypatch.setitem(sys.modules, "profile", user)
    assert state.scalars(roots(user.A().go)) == {".n": 1}


def test_own_generators_are_found(train: Any) -> None:
    trainer = train.Trainer()
    assert state.generators(roots(trainer.step)) == [trainer.own]


def test_what_is_trained_is_parameters_buffers_and_optimizer_state(train: Any) -> None:
    trainer = train.Trainer()
    trainer.step(torch.ones(4, 3))
    names = set(state.trained(roots(trainer.step)))
    assert {".net.0.weight", ".net.1.running_mean", ".optimizer.state[0].exp_avg"} <= names
    assert not {".mean", ".ema['0.weight']", "CACHE"} & names


def test_things_of_our_own_are_not_followed() -> None:
    ours = saved(len)
    assert list(state.walk([("", ours)])) == []
    assert len(list(state.walk([("", ours.restore)]))) == 2  # the method and its function, and nothing that they hold


def test_what_the_watch_wraps_is_followed_and_the_watch_is_not(train: Any) -> None:
    from cudagraph_skill.capture.guest.live import Watch

    watched = Watch({}, None)(train.counting())
    assert {"count", "total"} <= set(found(watched))
    assert not any("skip" in path for path in found(watched))


def test_a_ring_and_a_lattice_of_objects_are_walked_once_each() -> None:
    ring = SimpleNamespace(n=1)
    ring.me = [ring, {"ring": ring}]
    layer: Any = [torch.ones(1)]
    for _ in range(200):
        layer = [layer, layer]
    assert len(state.tensors([("ring", ring), ("layer", layer)])) == 1


def test_a_lazy_module_has_no_tensors_yet(tmp_path: Path) -> None:
    lazy = torch.nn.LazyLinear(2)
    assert state.tensors(roots(lazy)) == {}
    assert state.trained(roots(lazy)) == {}
    saved(lazy).restore()
    assert tmp_path.exists()


# Put back


def picture(trainer: Any, train: Any) -> tuple[Any, Any, Any]:
    """Return the bits of the numbers and tensors that are reached."""
    by_path = {path: tensors.to_host(each) for path, each in state.tensors(roots(trainer.step)).items()}
    return state.scalars(roots(trainer.step)), by_path, train.HISTORY["losses"][:]


def test_a_second_run_after_a_restore_is_the_first_one_to_the_bit(train: Any) -> None:
    trainer, x = train.Trainer(), torch.randn(4, 3)
    trainer.step(x)
    snapshot = saved(trainer.step)
    before = picture(trainer, train)
    runs, after = [], []
    for _ in range(3):
        runs.append([trainer.step(x) for _ in range(3)])
        after.append(picture(trainer, train))
        snapshot.restore()
        again = picture(trainer, train)
        assert again[0] == before[0]
        assert again[2] == before[2]
        assert set(again[1]) == set(before[1])
        assert not any(tensors.differences(before[1], again[1]).values())
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=True))
    assert after[0][0] == after[1][0] == after[2][0]
    assert not any(tensors.differences(after[0][1], after[2][1]).values())


def test_a_large_tensor_that_was_copied_to_the_host_is_filled_only_if_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[torch.Tensor] = []
    fill = state._fill

    def noted(there: torch.Tensor, copy: torch.Tensor) -> None:
        filled.append(there)
        fill(there, copy)

    monkeypatch.setattr(state, "_fill", noted)
    weight = torch.randn(64, 3)
    was = weight.clone()
    saved = state._Saved(weight, weight.data, was, tensors.fingerprint(weight), None, wants_grad=False, is_leaf=True)
    saved.restore()
    assert not filled
    weight[[0, 1]] = weight[[1, 0]]  # two rows trade places
    saved.restore()
    assert len(filled) == 1
    assert torch.equal(weight, was)


def test_objects_are_the_same_after_a_restore(train: Any) -> None:
    trainer = train.Trainer()
    held = {name: getattr(trainer, name) for name in ("net", "mean", "queue", "log", "swapped", "ema", "meter")}
    weight, storage = trainer.net[0].weight, trainer.swapped.data_ptr()
    snapshot = saved(trainer.step)
    trainer.step(torch.ones(4, 3))
    assert trainer.mean is not held["mean"]
    snapshot.restore()
    assert all(getattr(trainer, name) is each for name, each in held.items())
    assert trainer.net[0].weight is weight
    assert trainer.swapped.data_ptr() == storage
    assert trainer.swapped.tolist() == [1, 1]
    assert not hasattr(trainer, "new")
    assert not hasattr(train.Trainer, "late")
    assert trainer.frozen.requires_grad
    assert trainer.net[0].weight.grad is None
    assert list(trainer.queue) == [1, 2, 3]
    assert trainer.kinds == {"train"}
    assert (train.STEPS, train.Trainer.seen, train.Trainer.table, trainer.meter.count) == (0, 0, {}, 0)


def test_hooks_that_a_call_registers_are_gone_with_the_mark_that_says_so() -> None:
    module, seen = torch.nn.Linear(2, 2), []

    def call() -> None:
        if not hasattr(module, "hooked"):  # as transformers 5 does where hidden states are asked for
            module.hooked = True
            module.register_forward_hook(lambda *_: seen.append(1))
        module(torch.ones(2))

    snapshot = saved(call)
    call()
    snapshot.restore()
    call()
    assert len(seen) == 1  # the list was emptied by the restore; a second hook would fill it twice


def test_closure_and_attributes_of_a_function_are_put_back(train: Any) -> None:
    call, x = train.counting(), torch.ones(2)
    snapshot = saved(call)
    first = [call(x).item() for _ in range(3)]
    snapshot.restore()
    assert not hasattr(call, "last")
    assert [call(x).item() for _ in range(3)] == first == [2, 6, 12]


def test_a_global_that_the_call_made_is_gone(train: Any) -> None:
    snapshot = saved(train.lazily)
    train.lazily(torch.ones(1))
    snapshot.restore()
    assert not hasattr(train, "MADE")


def test_gradients_that_were_there_come_back_and_those_that_were_not_go() -> None:
    there, missing = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    there(torch.ones(1, 2)).sum().backward()
    kept = there.weight.grad
    snapshot = state.Snapshot([("a", there), ("b", missing)], 1 << 30)
    there.weight.grad = None
    there.bias.grad.add_(5)
    missing(torch.ones(1, 2)).sum().backward()
    snapshot.restore()
    assert there.weight.grad is kept
    assert there.bias.grad.tolist() == [1]
    assert missing.weight.grad is None


def test_default_generators_are_put_back_and_moves_are_seen() -> None:
    numpy = pytest.importorskip("numpy") if find_spec("numpy") else None
    draws = [random.random, lambda: torch.rand(()).item(), *([numpy.random.rand] if numpy else [])]
    before, snapshot = state.random_marks(), saved(len)
    first = [each() for each in draws]
    names = {"python-random", "cpu-torch-random", *(["numpy-random"] if numpy else [])}
    assert state.moved(before, state.random_marks()) == names
    snapshot.restore()
    assert state.moved(before, state.random_marks()) == set()
    assert [each() for each in draws] == first


TRACKERS = ["megatron.core.tensor_parallel.random", "transformer_engine.pytorch.distributed"]


@pytest.mark.parametrize("name", TRACKERS)
def test_generators_of_a_frameworks_tracker_are_found_and_put_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state.tracked() == []
    own = torch.Generator()
    states = {"model-parallel-rng": own, "plain": own.get_state()}
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(get_all_rng_states=lambda: states))
    assert state.tracked() == [own]
    snapshot = saved(len)
    first = torch.rand((), generator=own).item()
    snapshot.restore()
    assert torch.rand((), generator=own).item() == first


def test_a_tracker_that_was_not_seeded_has_no_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    def unseeded() -> dict[str, Any]:
        raise AssertionError("RNG Tracker has not been initalized!")

    monkeypatch.setitem(sys.modules, TRACKERS[0], SimpleNamespace(get_all_rng_states=unseeded))
    assert state.tracked() == []
    monkeypatch.setitem(sys.modules, TRACKERS[0], SimpleNamespace(get_all_rng_states=lambda: None))
    assert state.tracked() == []


def test_equal_seeds_give_equal_draws() -> None:
    drawn = []
    for _ in range(2):
        state.seed(1 << 40)
        drawn.append((random.random(), torch.rand(()).item()))
    assert drawn[0] == drawn[1]


def test_arrays_and_generators_of_numpy_are_put_back() -> None:
    numpy = pytest.importorskip("numpy")
    thing = SimpleNamespace(array=numpy.zeros(3), random=numpy.random.default_rng(1))
    snapshot = saved(thing)
    thing.array += 1
    first = thing.random.random()
    snapshot.restore()
    assert thing.array.tolist() == [0, 0, 0]
    assert thing.random.random() == first


def test_a_backward_that_waits_goes_on_after_a_restore() -> None:
    weight = torch.nn.Parameter(torch.full((2,), 3.0))
    buffer = torch.ones(2)
    loss = (weight * weight * buffer).sum()
    versions = weight._version, buffer._version
    snapshot = state.Snapshot([("w", weight), ("b", buffer)], 1 << 30)
    snapshot.restore()
    assert (weight._version, buffer._version) == versions
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [6, 6]


def test_a_buffer_that_became_part_of_a_backward_pass_is_free_of_it_again() -> None:
    weight, total = torch.nn.Parameter(torch.ones(2)), torch.zeros(2)
    snapshot = state.Snapshot([("w", weight), ("t", total)], 1 << 30)
    for _ in range(2):
        total.add_(weight * weight)
        total.sum().backward()
        snapshot.restore()
        assert total.is_leaf
        assert total.tolist() == [0, 0]


ODD = {
    "sparse": lambda: torch.eye(2).to_sparse(),
    "expanded": lambda: torch.ones(1).expand(3),
    "empty": lambda: torch.empty(0, 2),
    "meta": lambda: torch.ones(2, device="meta"),
    "inference": lambda: torch.inference_mode()(torch.ones)(2),
    "view": lambda: torch.arange(6.0)[::2],
    "bf16": lambda: torch.ones(2, dtype=torch.bfloat16),
    "conjugate": lambda: torch.ones(2, dtype=torch.complex64).conj(),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_tensor_is_put_back_as_well(kind: str) -> None:
    tensor = ODD[kind]()
    snapshot = state.Snapshot([("t", tensor)], 1 << 30)
    wanted = tensors.to_host(tensor) if not tensor.is_meta else None
    if kind in {"view", "bf16", "sparse", "conjugate"}:
        tensor.mul_(3)
    snapshot.restore()
    assert wanted is None or tensors.difference(wanted, tensors.to_host(tensor)) == 0


def test_storage_that_was_transposed_in_place_of_the_data_comes_back() -> None:
    weight = torch.nn.Parameter(torch.arange(4.0).reshape(2, 2))
    snapshot = state.Snapshot([("w", weight)], 1 << 30)
    weight.data = weight.data.t()
    snapshot.restore()
    assert weight.tolist() == [[0, 1], [2, 3]]


class _Frozen(OrderedDict[str, Any]):
    """As diffusers makes its configurations: what changes them raises."""

    frozen = False

    def __setitem__(self, name: str, value: Any) -> None:
        if self.frozen:
            raise TypeError("frozen")
        super().__setitem__(name, value)

    def clear(self) -> None:
        raise TypeError("frozen")

    update = pop = __delitem__ = clear  # type: ignore[assignment]


class _Irreps(tuple[Any, ...]):
    """As e3nn makes its representations: a pair that has no length, and items of other kinds."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Any:
        raise NotImplementedError


def test_containers_that_a_library_made_its_own_are_read_and_put_back_past_what_they_override() -> None:
    counts = [1, 2]
    frozen = _Frozen(rate=0.5, counts=counts)
    frozen.frozen = True
    holder = SimpleNamespace(config=frozen, pair=_Irreps((counts, torch.zeros(2))))
    assert {id(value) for _, value in state.walk([("", holder)])} >= {id(counts), id(holder.pair[1])}
    assert state.scalars([("", holder)])["len(.config)"] == 2
    saved = state.Snapshot([("", holder)], 1 << 20)
    OrderedDict.pop(frozen, "rate")
    holder.pair[1].add_(1)
    counts.append(3)
    saved.restore()
    assert list(frozen.items()) == [("rate", 0.5), ("counts", counts)]
    assert counts == [1, 2]
    assert holder.pair[1].tolist() == [0, 0]


def test_enums_and_classes_of_libraries_stay_as_they_are(tmp_path: Path) -> None:
    source = "import enum\nimport torch\n\nclass Mode(enum.IntEnum):\n    A = 1\n\nKIND = torch.nn.Linear\n\ndef fn(m):\n    return m == Mode.A, KIND\n"
    user = imported(tmp_path / "modes.py", source)
    before = dict(vars(torch.nn.Linear))
    saved(user.fn).restore()
    assert dict(vars(torch.nn.Linear)) == before
    assert user.Mode.A == 1


# Numbers put elsewhere


def test_what_scalars_finds_assign_can_set(train: Any) -> None:
    trainer, call = train.Trainer(), train.counting()
    call.last = 0
    trainer.rates = [1, 2]
    for subject in (trainer.step, call):
        for path, value in state.scalars(roots(subject)).items():
            if (
                isinstance(value, (int, float))
                and not path.endswith("()")
                and path.startswith((".rate", ".first", ".meter", ".queue", "STEPS", "count", "['last']", ".seen"))
            ):
                state.assign(roots(subject), {path: value + 5})
                assert state.scalars(roots(subject))[path] == value + 5, path
    assert (trainer.rate, train.STEPS, trainer.meter.count, trainer.rates, list(trainer.queue)) == (
        5.5,
        5,
        5,
        [6, 7],
        [6, 7, 8],
    )
    assert call(torch.ones(1)).item() == 6


def test_assign_changes_nothing_for_a_path_that_is_not_there(train: Any) -> None:
    trainer = train.Trainer()
    before = state.scalars(roots(trainer.step))
    for path in (".nothing", ".rate.x", "", ".net", ".optimizer.param_groups[0]['betas'][0]"):
        state.assign(roots(trainer.step), {path: 9})
    assert state.scalars(roots(trainer.step)) == before


def test_a_partial_of_a_method_reaches_its_object(train: Any) -> None:
    trainer = train.Trainer()
    assert ".rate" in state.scalars(roots(functools.partial(trainer.step, torch.ones(1))))
    assert isinstance(found(trainer.step)[".queue"], deque)


def test_tensors_and_arrays_that_are_plain_attributes_of_a_module_are_reached() -> None:
    module = torch.nn.Linear(2, 2)
    module.table, module.scale = torch.ones(3), torch.zeros(())
    if find_spec("numpy"):
        module.prior = pytest.importorskip("numpy").ones(3)
    assert {".table", ".scale", ".weight"} <= set(state.tensors([("", module)]))


def test_memory_that_was_given_back_is_no_state_and_comes_back_when_it_had_some() -> None:
    there, gone = torch.arange(4.0), torch.arange(4.0)
    view = gone[1:]
    gone.untyped_storage().resize_(0)  # as FSDP does between two uses of a gathered parameter
    roots: list[tuple[str, Any]] = [("net", {"there": there, "gone": gone, "view": view})]
    assert list(state.tensors(roots)) == ["net['there']"]
    snapshot = state.Snapshot(roots, 1 << 20)
    there.untyped_storage().resize_(0)
    snapshot.restore()
    assert there.tolist() == [0, 1, 2, 3]
    assert gone.untyped_storage().size() == 0
