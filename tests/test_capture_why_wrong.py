"""Recordings of two calls on the CPU: what they hold, and which line the first difference between them is."""

# ruff: noqa: E501 - a program as a user writes it stands on one line
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import cudagraph_skill
import torch
from cudagraph_skill.capture.guest import checks, operations, stack, state, tensors, why_wrong
from user_files import imported, line_of, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.capture.guest.operations import Operation
    from cudagraph_skill.capture.guest.why_wrong import Cause

HEAD = "import random\nimport time\n\nimport torch\n\n\n"


def recorded(function: Callable[..., Any], *args: Any) -> list[Operation]:
    recorder = operations.Recorder()
    with recorder:
        function(*args)
    return recorder.log


def named(log: list[Operation], name: str) -> Operation:
    """Return the only operation of that name."""
    [found] = [each for each in log if each.name.startswith(f"aten.{name}.")]
    return found


# Recorder


def test_each_operation_has_its_numbers_its_line_and_its_results(tmp_path: Path) -> None:
    user = imported(tmp_path / "a.py", HEAD + "def helper(x):\n    return x * 3\n\n\ndef step(x):\n    return helper(x) + 1\n")
    log = recorded(user.step, torch.ones(2))
    mul, add = named(log, "mul"), named(log, "add")
    assert mul.scalars == ((1.0, 1.0), 3)
    assert [(each.function, each.line) for each in mul.stack[-2:]] == [
        ("step", line_of(tmp_path / "a.py", "helper(x) + 1")),
        ("helper", line_of(tmp_path / "a.py", "x * 3")),
    ]
    assert mul.place == stack.Place(str(tmp_path / "a.py"), line_of(tmp_path / "a.py", "x * 3"), "helper")
    assert [each.tolist() for each in add.results] == [[4, 4]]
    assert mul.shapes == ((2,), (2,))


def test_an_input_names_the_operation_that_made_it() -> None:
    x = torch.ones(2)
    log = recorded(lambda: (x * 2) + x)
    mul, add = named(log, "mul"), named(log, "add")
    assert add.inputs[0][2] == log.index(mul)
    assert add.inputs[1] == (operations.memory(x), x.data_ptr(), -1)
    assert mul.outputs[0] == add.inputs[0][0]


def test_small_tensors_of_the_cpu_are_recorded_like_numbers_and_large_ones_are_not() -> None:
    log = recorded(lambda: torch.ones(3) * 2 + torch.ones(3, 64)[:, :3].sum())
    assert (2.0, 2.0, 2.0) in named(log, "add").scalars
    assert all(not isinstance(each, tuple) or len(each) <= 16 for entry in log for each in entry.scalars)


def test_an_operation_without_a_result_of_its_own_shows_what_it_wrote() -> None:
    there = [torch.zeros(2), torch.zeros(3)]
    log = recorded(lambda: torch._foreach_add_(there, 1))
    assert [each.tolist() for each in log[-1].results] == [[1, 1], [1, 1, 1]]


def test_work_on_the_cpu_is_told_from_views() -> None:
    log = recorded(lambda: torch.ones(2, 2).view(4).add(1))
    assert {name: named(log, name).host for name in ("ones", "view", "add")} == {"ones": True, "view": False, "add": True}


def test_a_backward_operation_has_the_line_of_the_backward_call(tmp_path: Path) -> None:
    user = imported(tmp_path / "a.py", "def step(w):\n    loss = (w * w).sum()\n    loss.backward()\n    return loss\n")
    log = recorded(user.step, torch.ones(2, requires_grad=True))
    lines = {each.name.split(".")[1]: each.place.line for each in log if each.place is not None}
    assert lines["sum"] == 2
    assert [each.place.line for each in log if each.place is not None][-1] == 3


def test_work_of_an_optimizer_is_marked(tmp_path: Path) -> None:
    user = imported(tmp_path / "a.py", "def step(w, o):\n    (w * w).sum().backward()\n    o.step()\n")
    weight = torch.ones(2, requires_grad=True)
    log = recorded(user.step, weight, torch.optim.SGD([weight], lr=0.1, foreach=False))
    assert [each.place.line for each in log if each.optimizer and each.place is not None] == [3] * sum(e.optimizer for e in log)
    assert not named(log, "sum").optimizer
    assert any(each.optimizer for each in log)


def test_a_result_that_changes_later_was_sampled_before() -> None:
    x = torch.zeros(2)
    log = recorded(lambda: x.add_(1).add_(1))
    assert [each.results[0].tolist() for each in log] == [[1, 1], [2, 2]]


@pytest.mark.slow
def test_recording_does_not_import_dynamo() -> None:
    code = (
        "import sys, torch\n"
        "from cudagraph_skill.capture.guest import operations\n"
        "with operations.Recorder() as recorder:\n    torch.ones(2) + 1\n"
        "assert recorder.log\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(cudagraph_skill.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stderr


# What the difference between two recordings is


def observations(**known: Any) -> checks.Observations:
    """Return what an explanation needs of the runs before it."""
    empty: dict[str, Any] = dict.fromkeys(checks.Observations._fields)
    return checks.Observations(**{**empty, "changing": {}, "moved": set(), **known})


def on_gpu(log: list[Operation]) -> list[Operation]:
    """Convert a recording to what the GPU would give within a capture."""
    return [
        each._replace(host=False, captured=True, scalars=tuple(e for e in each.scalars if not isinstance(e, tuple)))
        for each in log
    ]


def changes(function: Callable[..., Any], *args: Any, calls: int = 3, **known: Any) -> list[tuple[str, int]]:
    """Return category and line of what differs between the first and the last call."""
    logs, scalars, moved = [], [], set()
    for _ in range(calls):
        before = state.random_marks()
        logs.append(on_gpu(recorded(function, *args)))
        moved |= state.moved(before, state.random_marks())
        scalars.append(state.scalars([("", function)]))
    changing = {path: (scalars[0][path], each) for path, each in scalars[-1].items() if scalars[0].get(path, each) != each}
    return causes(why_wrong._changes(logs[0], logs[-1], observations(changing=changing, moved=moved, **known)))


def causes(found: list[tuple[int, Cause]]) -> list[tuple[str, int]]:
    return [(each.category, each.place.line if each.place else 0) for each in why_wrong._one_per_line(found)]


WRONG = {
    "a number that the object counts": ("python-number", "class A:\n    n = 1.0\n\n    def go(self, x):\n        self.n *= 0.5\n        return x * self.n  # wanted\n\n\nfn = A().go"),
    "a number through a local": ("python-number", "N = {'n': 1}\n\n\ndef fn(x):\n    N['n'] += 1\n    scale = 1 / N['n']  # wanted\n    return x * scale"),
    "a global of a helper": ("python-number", "N = 1\n\n\ndef helper(x):\n    global N\n    N += 1\n    return x * N  # wanted\n\n\ndef fn(x):\n    return helper(x)"),
    "a random number": ("python-random", "def fn(x):\n    p = random.random()  # wanted\n    return x * p"),
    "a clock": ("clock", "def fn(x):\n    return x * time.time()  # wanted"),
    "a branch": ("frozen-branch", "class A:\n    n = 0\n\n    def go(self, x):\n        self.n += 1\n        if self.n > 2:  # wanted\n            return x * 2\n        return x + 1\n\n\nfn = A().go"),
    "an early return": ("frozen-branch", "class A:\n    n = 0\n\n    def go(self, x):\n        self.n += 1\n        x = x * 2\n        if self.n > 2:  # wanted\n            return x\n        return x.exp()\n\n\nfn = A().go"),
    "a loop that grows": ("frozen-branch", "class A:\n    n = 0\n\n    def go(self, x):\n        self.n += 1\n        for _ in range(self.n):  # wanted\n            x = x + x\n        return x\n\n\nfn = A().go"),
    "a coin": ("python-random", "def fn(x):\n    flip = next(FLIPS)\n    if flip > random.random():  # wanted\n        return x * 2\n    return x.exp()\n\n\nFLIPS = iter([2, 2, -1])"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_the_line_that_changes_from_call_to_call_is_named(tmp_path: Path, kind: str) -> None:
    category, source = WRONG[kind]
    user = imported(tmp_path / "train.py", HEAD + source + "\n")
    assert changes(user.fn, torch.ones(2))[:1] == [(category, line_of(tmp_path / "train.py", "wanted"))]


def test_a_call_that_repeats_itself_has_no_such_line(tmp_path: Path) -> None:
    user = imported(tmp_path / "train.py", HEAD + "N = 2\n\n\ndef fn(x):\n    return x * N if N else x\n")
    assert changes(user.fn, torch.ones(2)) == []


def frozen(function: Callable[..., Any], inputs: list[torch.Tensor], capture: Callable[[list[Operation]], list[Operation]], **known: Any) -> list[tuple[str, int]]:  # fmt: skip
    """Return what differs if the graph continues with the results of the first call."""
    logs, given = [], []
    alive = []
    for each in inputs:
        with operations.Recorder() as recorder:
            alive.append((recorder, function(each)))
        logs.append(recorder.log)
        given.append({operations.memory(each)})
    changing, exact = known.pop("changing", {}), known.pop("exact", False)
    eager = [capture(each) for each in logs]
    return causes(why_wrong._frozen(why_wrong.Logs(eager, eager[0], given), observations(changing=changing, **known), exact))


def test_a_tensor_that_each_call_binds_anew_is_named_where_it_is_bound(tmp_path: Path) -> None:
    source = "class A:\n    m = torch.zeros(2)\n\n    def go(self, x):\n        y = self.m * 2\n        new = y + x\n        self.m = new  # wanted\n        return y\n\n\nfn = A().go\n"
    user = imported(tmp_path / "train.py", HEAD + source)
    found = frozen(user.fn, [torch.ones(2)] * 3, on_gpu)
    assert found[:1] == [("rebinding", line_of(tmp_path / "train.py", "wanted"))]


def test_work_on_the_cpu_is_named_where_it_is_done(tmp_path: Path) -> None:
    source = "C = torch.zeros(1)\n\n\ndef fn(x):\n    C.add_(1)  # wanted\n    return x * 2\n"
    user = imported(tmp_path / "train.py", HEAD + source)
    found = frozen(user.fn, [torch.ones(2)] * 2, lambda log: log)
    assert found[:1] == [("cpu-work", line_of(tmp_path / "train.py", "wanted"))]


def test_a_draw_on_the_cpu_is_named_as_one(tmp_path: Path) -> None:
    user = imported(tmp_path / "train.py", HEAD + "def fn(x):\n    p = torch.rand(())  # wanted\n    return x * 2 + p\n")
    found = frozen(user.fn, [torch.ones(2)] * 2, lambda log: log)
    assert found[:1] == [("cpu-torch-random", line_of(tmp_path / "train.py", "wanted"))]


def test_another_row_of_one_tensor_is_a_choice_however_small_its_effect() -> None:
    rows, at = torch.randn(3, 4), [0]

    def work(x: torch.Tensor) -> torch.Tensor:
        row = rows.split(1)[at[0]]
        at[0] += 1
        return x + 1e-6 * row

    then, now = (on_gpu(recorded(work, torch.ones(4))) for _ in range(2))
    logs = why_wrong.Logs([then, now], then, [set(), set()])
    [cause] = why_wrong.beyond_rounding(why_wrong.explain(logs, observations(), exact=True))
    assert cause.category == "frozen-branch"


def test_a_slice_that_is_an_argument_is_no_choice() -> None:
    data = torch.randn(3, 4)
    logs, inputs = [], []
    for row in data:
        logs.append(on_gpu(recorded(lambda x: x + 1, row)))
        inputs.append({operations.memory(row)})
    close = [each._replace(results=tuple(result * (1 + 1e-7) for result in each.results)) for each in logs[-1]]
    found = why_wrong.explain(why_wrong.Logs([logs[0], logs[-1]], close, [inputs[0], inputs[-1]]), observations(), exact=True)
    assert why_wrong.beyond_rounding(found) == []


@pytest.mark.parametrize(
    ("draw", "category"),
    [
        (torch.rand_like, "rng-reset"),
        (lambda x: x.clone().uniform_(), "rng-reset"),
        (lambda x: torch.native_dropout(x, 0.5, True)[0], "rng-reset"),
        (lambda x: torch.bernoulli(x / 2), "rng-input"),
        (lambda x: torch.multinomial(x, 8), "rng-input"),
    ],
)
def test_a_draw_that_depends_on_the_generator_alone_is_no_rounding(draw: Callable[..., Any], category: str) -> None:
    x = torch.ones(64)
    then, now = (on_gpu(recorded(draw, x)) for _ in range(2))
    found = why_wrong.explain(why_wrong.Logs([then, now], then, [set(), set()]), observations())
    assert [cause.category for cause in found] == [category]
    assert bool(why_wrong.beyond_rounding(found)) == (category == "rng-reset")


def test_work_that_a_capture_misses_is_named_if_its_result_changes() -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    then, now = (on_gpu(recorded(work, torch.full((2,), value)))[0] for value in (1.0, 3.0))
    missed = then._replace(missed=True, captured=False, results=())
    logs = why_wrong.Logs([[then], [now]], [missed], [set(), set()])
    assert [cause.category for cause in why_wrong.explain(logs, observations())] == ["stream-missing"]
    assert why_wrong.explain(logs._replace(eager=[[now], [now]]), observations()) == []
    close = now._replace(results=tuple(result * (1 + 1e-6) for result in now.results))
    logs = logs._replace(eager=[[now], [close]])
    assert why_wrong.explain(logs, observations()) == []
    assert [cause.category for cause in why_wrong.explain(logs, observations(), exact=True)] == ["stream-missing"]


def test_a_choice_among_layers_is_named_where_it_is_made(tmp_path: Path) -> None:
    source = "class A:\n    def __init__(self):\n        self.layers, self.turn = [torch.ones(2), torch.zeros(2)], -1\n\n    def go(self, x):\n        self.turn += 1\n        layer = self.layers[self.turn % 2]  # wanted\n        return x * layer\n\n\nfn = A().go\n"
    user = imported(tmp_path / "train.py", HEAD + source)
    found = frozen(user.fn, [torch.ones(2)] * 2, on_gpu, changing={".turn": (0, 1)})
    assert found == [("frozen-branch", line_of(tmp_path / "train.py", "wanted"))]


def test_another_path_of_a_captured_call_is_named_as_one(tmp_path: Path) -> None:
    source = "CAPTURES = False\n\n\ndef fn(x):\n    if CAPTURES:\n        return x + x  # wanted\n    return x * 2\n"
    user = imported(tmp_path / "train.py", HEAD + source)
    eager = [on_gpu(recorded(user.fn, torch.ones(2))) for _ in range(2)]
    user.CAPTURES = True
    captured = on_gpu(recorded(user.fn, torch.ones(2)))
    [cause] = why_wrong.explain(why_wrong.Logs(eager, captured, [set(), set()]), observations())
    assert (cause.category, cause.place and cause.place.line) == (
        why_wrong.CAPTURED_PATH,
        line_of(tmp_path / "train.py", "wanted"),
    )
    assert why_wrong.beyond_rounding([cause]) == []


def test_a_tensor_that_differs_little_is_found_where_results_are_compared_to_the_bit(tmp_path: Path) -> None:
    source = "class A:\n    m = torch.ones(2)\n\n    def go(self, x):\n        y = self.m * x\n        new = self.m + 1e-6\n        self.m = new  # wanted\n        return y\n\n\nfn = A().go\n"
    user = imported(tmp_path / "train.py", HEAD + source)
    assert frozen(user.fn, [torch.ones(2)] * 3, on_gpu) == []
    user = imported(tmp_path / "train.py", HEAD + source)
    assert frozen(user.fn, [torch.ones(2)] * 3, on_gpu, exact=True)[:1] == [
        ("rebinding", line_of(tmp_path / "train.py", "wanted"))
    ]


def test_a_dropout_with_the_same_mask_only_shows_that_its_input_differs() -> None:
    def dropped(x: torch.Tensor) -> Any:
        torch.manual_seed(1)
        return torch.native_dropout(x, 0.5, True)

    now, then = (on_gpu(recorded(dropped, torch.full((64,), value)))[-1] for value in (1.0, 3.0))
    assert why_wrong._other_value(now, then).category == "value"
    assert why_wrong._other_value(now, then._replace(results=(then.results[0], ~then.results[1]))).category == "rng-reset"


def test_an_operation_knows_the_deepest_line_of_the_library_that_called_it(tmp_path: Path) -> None:
    written(
        tmp_path / "site-packages" / "models" / "__init__.py",
        "class Model:\n    def forward(self, x):\n        return self.mask(x)\n\n    def mask(self, x):\n        return x * 2  # deepest\n",
    )
    user = imported(
        tmp_path / "train.py",
        f"import sys\n\nsys.path.insert(0, {str(tmp_path / 'site-packages')!r})\nimport models\n\n\ndef step(x):\n    y = x + 1\n    return models.Model().forward(y)\n",
    )
    log = recorded(user.step, torch.ones(2))
    assert named(log, "add").library is None
    place = named(log, "mul").library
    assert place is not None
    assert (Path(place.path).parent.name, place.line, place.function.rpartition(".")[2]) == ("models", 6, "mask")
    assert stack.package(place.path)[0] == "models"


def test_the_deepest_line_may_be_one_of_torch_that_does_something_itself() -> None:
    weight = torch.ones(2, requires_grad=True)
    weight.grad = torch.ones(2)
    log = recorded(torch.optim.SGD([weight], lr=0.1, foreach=False).step)
    places = [each.library for each in log]
    assert "sgd.py" in {Path(place.path).name for place in places if place is not None}
    assert stack.package(places[0].path if places[0] else "") == ("torch", torch.__version__)


def test_lines_that_a_compiler_wrote_are_nobody_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "own"))
    for written_by in ("torchinductor_me/ab/cab.py", ".triton/cache/x/k.py", "own/ab/cab.py"):
        assert stack._rank(str(tmp_path / written_by)) == 0
    assert stack._rank(str(tmp_path / "train.py")) == 2


def test_what_follows_from_its_inputs_is_no_divergence(tmp_path: Path) -> None:
    user = imported(tmp_path / "train.py", HEAD + "def fn(x):\n    return (x * 2).exp()\n")
    assert frozen(user.fn, [torch.ones(2)] * 3, on_gpu) == []
    assert tensors.tensors(user.fn(torch.ones(2)))


def test_an_error_within_a_library_is_told_at_the_line_of_the_program_that_called_it(tmp_path: Path) -> None:
    written(
        tmp_path / "site-packages" / "steps.py", "def step(x):\n    return deeper(x)\n\n\ndef deeper(x):\n    return x / 0\n"
    )
    steps = imported(tmp_path / "site-packages" / "steps.py", (tmp_path / "site-packages" / "steps.py").read_text())
    with pytest.raises(ZeroDivisionError) as raised:
        steps.step(1)
    within = (
        raised.value.__traceback__.tb_next if raised.value.__traceback__ else None
    )  # a target in a library: no line of ours
    assert Path(stack.of_traceback(within)[-1].path) == Path(__file__)
    library = stack.library_of_traceback(within)
    assert library is not None
    assert (library.line, library.function) == (6, "deeper")
