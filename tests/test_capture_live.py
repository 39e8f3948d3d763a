"""A program runs as it would without us, and real calls of the one target in it are taken."""

# ruff: noqa: E501 - a program as a user writes it stands on one line
from __future__ import annotations

import ast
import functools
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import live, load, modes, readiness, signatures, state
from cudagraph_skill.capture.guest.agreement import Alone
from reported import Report
from user_files import line_of, same_interpreter, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["same_interpreter"]
pytestmark = pytest.mark.usefixtures("same_interpreter")


class Taken(list[Any]):
    """The arguments of the calls that were taken, and what the program reported; `owner` is the object whose method it is.

    `signatures` are those that were seen, with the number of their calls.
    """

    owner: Any = None
    said = ""
    signatures: Mapping[str, int] = {}


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Taken]:
    """Run a program until enough calls are taken, without the check that needs a GPU."""
    taken = Taken()

    def check(self: Any) -> None:
        self.done = True
        taken.extend((each.args, each.kwargs) for calls in self._calls.values() for each in calls)
        taken.signatures = dict(self._passed)
        taken.owner = self._owner

    def run(target: str, *arguments: str, **options: Any) -> Taken:
        report = Report()
        live.run({"target": target, "arguments": [str(each) for each in arguments], **options}, report)
        taken.said = report.results[0]["said"] if report.results else ""
        return taken

    monkeypatch.setattr(live.Watch, "_check", check)
    return run


# Marks


def calls(source: str, name: str) -> list[str]:
    """Execute the source and return the names of the functions given to the watch."""
    seen: list[str] = []

    def watch(function: Any) -> Any:
        seen.append(getattr(function, "__qualname__", type(function).__name__))
        return function

    exec(live.marked(source.encode(), "a.py", name), {live._WATCH: watch, "__name__": "a"})
    return seen


MARKED = {
    "function": ("def f(): pass\n", "f", "f"),
    "async function": ("async def f(): pass\n", "f", "f"),
    "method": ("class A:\n    def f(self): pass\n", "A.f", "A.f"),
    "class with forward": ("class A:\n    def forward(self): pass\n    def __call__(self): pass\n", "A", "A.forward"),
    "class with __call__": ("class A:\n    def __call__(self): pass\n", "A", "A.__call__"),
    "nested class": ("class A:\n    class B:\n        def f(self): pass\n", "A.B.f", "A.B.f"),
    "nested function": ("def g():\n    def f(): pass\n    return f\ng()\n", "g.f", "g.<locals>.f"),
    "nested function as Python names it": ("def g():\n    def f(): pass\ng()\n", "g.<locals>.f", "g.<locals>.f"),
    "in an if": ("if True:\n    def f(): pass\n", "f", "f"),
    "in a try": ("try:\n    import no_such\nexcept ImportError:\n    def f(): pass\n", "f", "f"),
    "static method": ("class A:\n    @staticmethod\n    def f(): pass\n", "A.f", "A.f"),
    "class method": ("class A:\n    @classmethod\n    def f(cls): pass\n", "A.f", "A.f"),
    "property": ("class A:\n    @property\n    def f(self): pass\n", "A.f", "A.f"),
    "decorated": ("import torch\n@torch.no_grad()\ndef f(): pass\n", "f", "f"),
    "with annotations of the future": ("from __future__ import annotations\ndef f(x: Nothing): pass\n", "f", "f"),
}


@pytest.mark.parametrize("kind", MARKED)
def test_one_definition_is_handed_to_the_watch(kind: str) -> None:
    source, name, wanted = MARKED[kind]
    assert calls(source, name) == [wanted]


@pytest.mark.parametrize("name", ["g", "A.g", "A.B", "f.g", "B"])
def test_what_is_not_defined_is_said_in_a_sentence(name: str) -> None:
    source = "class A:\n    def f(self): pass\n\nclass B:\n    x = 1\n\ndef f(): pass\n"
    with pytest.raises(live.Missing, match=rf"a.py defines no {name}: name a function as FILE:FUNCTION"):
        live.marked(source.encode(), "a.py", name)


@pytest.mark.parametrize(
    ("name", "end"), [("B.f", "B inherits it from A, name f there"), ("B", "B inherits it from A, name forward there")]
)
def test_the_class_that_may_define_an_inherited_method_is_told(name: str, end: str) -> None:
    source = "class A:\n    def f(self): pass\n\nclass B(A):\n    x = 1\n"
    with pytest.raises(live.Missing, match=rf"a.py defines no {name}: .*; if {end}$"):
        live.marked(source.encode(), "a.py", name)


def test_the_mark_goes_inside_a_static_method_and_outside_of_other_decorators() -> None:
    source = "import torch\nclass A:\n    @staticmethod\n    @torch.no_grad()\n    def f(): return torch.is_grad_enabled()\n"
    seen: list[Any] = []

    def watch(function: Any) -> Any:
        seen.append(function)
        return function

    space: dict[str, Any] = {live._WATCH: watch, "__name__": "a"}
    exec(live.marked(source.encode(), "a.py", "A.f"), space)
    assert seen[0]() is False
    assert space["A"].f() is False
    assert space["A"]().f is seen[0]


def test_lines_in_tracebacks_are_those_of_the_file() -> None:
    source = "\n\nimport functools\n\n\n@functools.cache\ndef f(x):\n    y = x\n    return 1 / y\n"
    space: dict[str, Any] = {live._WATCH: lambda function: function, "__name__": "a"}
    exec(live.marked(source.encode(), "a.py", "f"), space)
    with pytest.raises(ZeroDivisionError) as raised:
        space["f"](0)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].lineno == 9
    plain: dict[str, Any] = {}
    exec(compile(ast.parse(source), "a.py", "exec"), plain)
    assert space["f"].__wrapped__.__code__.co_firstlineno == plain["f"].__wrapped__.__code__.co_firstlineno


# Which module


@pytest.mark.parametrize(
    ("target", "path", "module", "main"),
    [
        ("train.py:step", "train.py", "", True),
        ("./train.py:step", "train.py", "", True),
        ("other.py:step", "train.py", "", False),
        ("train:step", "train.py", "", True),
        ("train:step", "sub/train.py", "", True),
        ("__main__:step", "train.py", "", True),
        ("step", "train.py", "", True),
        ("other:step", "train.py", "", False),
        ("pkg.train:step", "pkg/train.py", "pkg.train", True),
        ("pkg.other:step", "pkg/train.py", "pkg.train", False),
        ("pkg.__main__:step", "pkg/__main__.py", "pkg", True),
        ("pkg/__main__.py:step", "pkg/__main__.py", "pkg", True),
    ],
)
def test_the_program_itself_may_be_named_in_many_ways(target: str, path: str, module: str, main: bool) -> None:
    assert live.Target({"target": target}).is_main(path, module) is main


LOOP = "for n in range(20):\n    {}\n"


@pytest.mark.parametrize("target", ["{folder}/helper.py:step", "helper:step"])
def test_a_module_that_the_program_imports_is_watched(tmp_path: Path, take: Callable[..., Taken], target: str) -> None:
    written(tmp_path / "helper.py", "def step(n):\n    return n\n")
    main = written(tmp_path / "main.py", "import helper\n" + LOOP.format("helper.step(n)"))
    assert take(target.format(folder=tmp_path), main) == [((n,), {}) for n in range(3, 9)]


def test_a_module_in_a_package_is_watched(tmp_path: Path, take: Callable[..., Taken]) -> None:
    written(tmp_path / "pkgone/__init__.py", "")
    written(tmp_path / "pkgone/model.py", "class Net:\n    def forward(self, n):\n        return n\n")
    main = written(tmp_path / "main.py", "from pkgone.model import Net\nnet = Net()\n" + LOOP.format("net.forward(n=n)"))
    taken = take("pkgone.model:Net", main)
    assert taken == [((), {"n": n}) for n in range(3, 9)]
    assert type(taken.owner).__name__ == "Net"


def test_a_module_that_lacks_the_target_is_told(tmp_path: Path, take: Callable[..., Taken]) -> None:
    written(tmp_path / "helper.py", "x = 1\n")
    taken = take("helper:step", written(tmp_path / "main.py", "import helper\n"))
    assert (
        taken.said
        == f"{tmp_path}/helper.py defines no step: name a function as FILE:FUNCTION or MODULE:FUNCTION, a method as FILE:CLASS.METHOD"
    )


@pytest.mark.parametrize("name", ["pkgtwo", "pkgtwo.train"])
def test_a_module_is_run_as_python_runs_it(
    tmp_path: Path, take: Callable[..., Taken], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = "from . import start\n\n\ndef step(n):\n    return n\n\n\nif __name__ == '__main__':\n    for n in range(start, start + 9):\n        step(n)\n"
    written(tmp_path / "pkgtwo/__init__.py", "start = 100\n")
    written(tmp_path / "pkgtwo/__main__.py", source)
    written(tmp_path / "pkgtwo/train.py", source)
    monkeypatch.chdir(tmp_path)
    assert take("step", "-m", name) == [((n,), {}) for n in range(103, 109)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.py"], "there is no program nothing.py"),
        (["-m", "no_such_module"], "there is no module no_such_module to run"),
    ],
)
def test_a_program_that_is_not_there_is_told(take: Callable[..., Taken], arguments: list[str], said: str) -> None:
    assert take("step", *arguments).said.startswith(said)


SELF = "import json, sys\nprint(json.dumps([sys.argv, __name__, __file__, sys.path[0], __package__, __spec__ and __spec__.name]))\n"


@pytest.mark.parametrize(
    "arguments", [["main.py", "--lr", "1"], ["-m", "main", "x"], ["-m", "pkgthree", "-y"], ["./pkgthree/../main.py"]]
)
def test_a_program_finds_itself_as_it_would_without_us(
    tmp_path: Path,
    take: Callable[..., Taken],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    written(tmp_path / "pkgthree/__init__.py", "")
    for name in ("main.py", "pkgthree/__main__.py"):
        written(tmp_path / name, SELF)
    monkeypatch.chdir(tmp_path)
    alone = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=30, check=True)
    take("other:step", *arguments)
    ours, theirs = json.loads(capsys.readouterr().out), json.loads(alone.stdout)
    theirs[2] = os.path.normpath(theirs[2])
    assert ours == theirs


# Which calls


def test_only_calls_of_the_first_object_are_taken(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "class A:\n    def go(self, n):\n        return n\n\n\none, other = A(), A()\n" + LOOP.format(
        "one.go(n), other.go(-n)"
    )
    assert take("A.go", written(tmp_path / "main.py", source)) == [((n,), {}) for n in range(3, 9)]


def test_a_decorated_method_has_an_object_too(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = (
        "import torch\n\n\nclass A:\n    @torch.no_grad()\n    def go(self, n):\n        return n\n\n\none, other = A(), A()\n"
    )
    taken = take("A.go", written(tmp_path / "main.py", source + LOOP.format("other.go(n), one.go(-n)")))
    assert taken == [((n,), {}) for n in range(3, 9)]
    assert type(taken.owner).__name__ == "A"


def test_a_target_that_a_decorator_made_an_object_of_is_watched(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "class Wrap:\n    def __init__(self, f):\n        self.f = f\n\n    def __call__(self, n):\n        return self.f(n)\n\n\n@Wrap\ndef step(n):\n    return n\n\n\n"
    assert len(take("step", written(tmp_path / "main.py", source + LOOP.format("step(n)")))) == 6


def test_a_function_that_is_defined_anew_is_the_same_target(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "def make():\n    def step(n):\n        return n\n    return step\n\n\n" + LOOP.format("make()(n)")
    assert len(take("make.step", written(tmp_path / "main.py", source))) == 6


def test_a_call_within_a_call_is_not_one_of_them(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "def step(n):\n    return step(n - 100) if n > 0 else n\n\n\n" + LOOP.format("step(n)")
    assert take("step", written(tmp_path / "main.py", source)) == [((n,), {}) for n in range(3, 9)]


def test_skip_says_how_many_calls_pass(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "def step(n):\n    return n\n\n\n" + LOOP.format("step(n)")
    assert take("step", written(tmp_path / "main.py", source), skip=10)[0] == ((10,), {})


def test_arguments_are_those_of_the_call_even_if_it_changes_them(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "import torch\n\n\ndef step(x):\n    return x.mul_(2)\n\n\nx = torch.ones(1)\n" + LOOP.format("step(x)")
    taken = take("step", written(tmp_path / "main.py", source))
    assert [args[0].item() for args, _ in taken] == [8, 16, 32, 64, 128, 256]
    assert isinstance(taken[0][0][0], torch.Tensor)


def test_numbers_that_the_program_changes_between_calls_belong_to_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[Any] = []
    monkeypatch.setattr(
        live.Watch, "_check", lambda self: changed.extend(each.changed for calls in self._calls.values() for each in calls)
    )
    source = "class A:\n    rate = 0\n\n    def __init__(self):\n        self.epoch = self.own = 0\n\n    def go(self):\n        self.own += 1\n\n\na = A()\n"
    main = written(tmp_path / "main.py", source + LOOP.format("a.epoch = n; a.go()"))
    live.run({"target": "A.go", "arguments": [str(main)]}, Report())
    assert changed[0] == {}
    assert changed[1:] == [{"self.epoch": n} for n in range(4, 9)] or changed[1:] == [{".epoch": n} for n in range(4, 9)]


# Signatures


def test_calls_are_taken_by_signature(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "import torch\n\n\ndef act(x, train=False):\n    return x\n\n\nfor n in range(40):\n    act(torch.zeros(n % 2 * 255 + 1, 4))\n"
    taken = take("act", written(tmp_path / "main.py", source))
    shapes = [tuple(args[0].shape) for args, _ in taken]
    assert shapes.count((1, 4)) >= 5
    assert shapes.count((256, 4)) >= 5
    assert set(taken.signatures) == {"float32[1, 4] on cpu", "float32[256, 4] on cpu"}


def test_a_model_that_trains_and_is_evaluated_has_two_signatures(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.norm = torch.nn.Dropout(), torch.nn.BatchNorm1d(4).eval()

        def forward(self, x):
            return self.norm(self.drop(x))

    net = Net()
    for n in range(40):
        net.drop.train(n % 2 == 0)
        with torch.set_grad_enabled(n % 2 == 0):
            net(torch.zeros(2, 4))
    """
    taken = take("Net.forward", written(tmp_path / "main.py", textwrap.dedent(source)))
    assert set(taken.signatures) == {
        "float32[2, 4] on cpu, 1 of 3 modules in eval mode",
        "float32[2, 4] on cpu, 2 of 3 modules in eval mode, no_grad",
    }


def test_a_call_is_made_in_the_modes_of_when_it_was_recorded() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    roots = [("", net)]
    with torch.no_grad():
        net.eval()
        recorded = modes.now(roots)
    net.train()
    assert recorded._replace(autocast=torch.bfloat16).words == "eval mode, no_grad, autocast bfloat16"
    assert modes.now(roots).words == ""
    call = recorded.around(lambda x: (net(x).requires_grad, net.training, modes.now().words))
    assert call(torch.ones(1, 2)) == (False, False, "no_grad")
    assert torch.is_grad_enabled()
    method = recorded.around(functools.partial(torch.nn.Linear.forward, net[0]))
    assert load.definition(method)[2] == "Linear.forward"


def test_timed_calls_are_in_their_modes_and_those_of_modules_are_set_before() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    recorded = modes.now([("", net)])
    net.eval()

    def call() -> tuple[bool, str]:
        return net.training, modes.now().words

    assert recorded.around_timed(call) is call
    assert net.training
    timed = recorded._replace(grad=False).around_timed(call)
    net.eval()
    assert timed() == (False, "no_grad")


def test_a_way_goes_around_the_method_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wrapper finds the object of a method, and the modes of the program stand around it."""
    subjects: list[Any] = []

    def checked(self: Any, calls: list[Any], _: Any) -> dict[str, Any]:
        subjects.append(live._subject(self._function, self._owner, calls, []))
        return live._without_causes("safe", "", {})

    monkeypatch.setattr(live.Watch, "_checked", checked)
    source = "import torch\n\n\nclass Trainer:\n    scale = 2\n\n    def step(self, x):\n        return x * self.scale, torch.is_grad_enabled()\n\n\ntrainer = Trainer()\nwith torch.no_grad():\n    for n in range(40):\n        trainer.step(torch.ones(2))\n"
    live.run({"target": "Trainer.step", "arguments": [str(written(tmp_path / "main.py", source))], "measure": "ways"}, Report())
    [subject] = subjects
    assert type(subject.bare.__self__).__name__ == "Trainer"
    assert subject.bare(torch.ones(2))[1]
    assert not subject.modes.around(subject.bare)(torch.ones(2))[1]


COMPILED = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return inner(self.layer(x))

    def scaled(self, x):
        return self.layer(x) * 2


def inner(x):
    return x.relu()


def step(x):
    return net(x) + 1


@torch.compile(backend="eager", fullgraph=True)
def decorated(x):
    return net(x) - 1


net = Net()
whole = torch.compile(net, backend="eager", fullgraph=True)
method = torch.compile(net.scaled, backend="eager", fullgraph=True)
step = torch.compile(step, backend="eager", fullgraph=True)
in_place = Net()
in_place.compile(backend="eager", fullgraph=True)
calls = {"Net.forward": whole, "Net.scaled": method, "step": step, "decorated": decorated, "inner": step, "compile": in_place}
"""


@pytest.mark.parametrize("target", ["Net.forward", "Net.scaled", "step", "decorated", "compile"])
def test_a_compiled_target_is_watched_from_outside(tmp_path: Path, take: Callable[..., Taken], target: str) -> None:
    main = written(tmp_path / "main.py", COMPILED + LOOP.format(f"calls[{target!r}](torch.ones(2, 4))"))
    taken = take("Net.forward" if target == "compile" else target, main)
    assert len(taken) == 6
    assert [tuple(args[0].shape) for args, _ in taken] == [(2, 4)] * 6
    assert taken.owner is None


def test_what_is_called_within_a_compiled_region_is_never_called(tmp_path: Path, take: Callable[..., Taken]) -> None:
    taken = take("inner", written(tmp_path / "main.py", COMPILED + LOOP.format('calls["inner"](torch.ones(2, 4))')))
    assert "inner was never called" in taken.said
    assert "only the compiled callable is called" in taken.said


def test_state_is_found_behind_a_compiled_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    written(tmp_path / "compiled_program.py", COMPILED)
    program = importlib.import_module("compiled_program")
    for target in (program.step, program.whole.forward):
        assert any(value is program.net.layer.weight for _, value in state.walk([("", target)]))
    assert load.definition(program.step)[2] == "step"
    assert load.definition(program.whole.forward)[2] == "Net.forward"


def test_calls_that_all_have_signatures_of_their_own_are_not_waited_for(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "import torch\n\n\ndef act(x, train=False):\n    return x\n\n\nfor n in range(1000):\n    act(torch.zeros(n), train=n > 5)\nraise SystemExit(7)\n"
    taken = take("act", written(tmp_path / "main.py", source))
    assert len(taken) == 20
    assert "float32[7] on cpu, train True" in taken.signatures


def test_the_worst_verdict_of_several_signatures_counts_and_each_is_told() -> None:
    results = {"float32[1]": {"verdict": "safe", "said": "captures", "notes": []}}
    assert signatures.joined(results, {"float32[1]": 9}) == results["float32[1]"]
    results["float32[2]"] = {"verdict": "capture_error", "said": "fails", "notes": ["a note"]}
    joined = signatures.joined(results, {"float32[1]": 9, "float32[2]": 4, "float32[3]": 1})
    assert joined["verdict"] == "capture_error"
    assert [row["verdict"] for row in joined["signatures"]] == ["safe", "capture_error", "not checked"]
    assert "a graph of its own" in joined["said"]
    assert joined["notes"][1] == "a note"


def test_a_target_that_is_called_once_names_what_it_calls_again_and_again(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "import time\n\n\ndef load():\n    return 1\n\n\nclass Trainer:\n    def step(self):\n        time.sleep(0.01)\n\n    def fit(self):\n        for _ in range(8):\n            load()\n            self.step()\n\n\nTrainer().fit()\n"
    said = take("Trainer.fit", written(tmp_path / "main.py", source)).said
    assert (
        "was called 1 time: name one of the functions that it calls again and again: `--target Trainer.step` (8 times, " in said
    )
    assert "load" not in said


def test_a_target_that_calls_nothing_often_is_told_of_skip(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "def fit():\n    return 1\n\n\nfit()\n"
    assert take("fit", written(tmp_path / "main.py", source)).said.endswith("use a smaller `--skip`")


# How it ends


def test_the_program_stops_after_the_check_unless_it_is_to_go_on(
    tmp_path: Path, take: Callable[..., Taken], capsys: pytest.CaptureFixture[str]
) -> None:
    main = written(tmp_path / "main.py", "def step(n):\n    return n\n\n\nprint(sum(step(n) for n in range(20)))\n")
    take("step", main)
    assert capsys.readouterr().out == ""
    take("step", main, go_on=True)
    assert capsys.readouterr().out == "190\n"


def test_a_program_that_ends_early_is_checked_with_what_there_is(tmp_path: Path, take: Callable[..., Taken]) -> None:
    main = written(tmp_path / "main.py", "def step(n):\n    return n\n\n\nfor n in range(5):\n    step(n)\n")
    assert take("step", main) == [((3,), {}), ((4,), {})]


ENDS = {
    "never": ("pass", "was never called: name what the program calls"),
    "too seldom": ("step(1); step(2)", "was called 2 times: use a smaller `--skip`"),
    "an exit": ("import sys; sys.exit(3)", "was never called"),
    "an exit in a call": ("import sys; step(1); sys.exit('stop')", "was called 1 time"),
    "an error": ("1 / 0", "the program raised ZeroDivisionError"),
}


@pytest.mark.parametrize("kind", ENDS)
def test_a_program_that_ends_before_the_check_says_how(tmp_path: Path, take: Callable[..., Taken], kind: str) -> None:
    body, said = ENDS[kind]
    taken = take("step", written(tmp_path / "main.py", f"def step(n):\n    return n\n\n\n{body}\n"))
    assert taken == []
    assert said in taken.said


def test_the_exit_code_after_a_check_is_that_of_the_program(tmp_path: Path, take: Callable[..., Taken]) -> None:
    source = "import sys\n\n\ndef step(n):\n    return n\n\n\nfor n in range(20):\n    step(n)\nsys.exit(3)\n"
    with pytest.raises(SystemExit) as ended:
        take("step", written(tmp_path / "main.py", source), go_on=True)
    assert ended.value.code == 3


def test_an_error_after_a_check_has_the_lines_of_the_program(tmp_path: Path, take: Callable[..., Taken]) -> None:
    main = written(tmp_path / "main.py", "def step(n):\n    return n\n\n\nfor n in range(20):\n    step(n)\n1 / 0  # here\n")
    with pytest.raises(ZeroDivisionError) as raised:
        take("step", main, go_on=True)
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (str(main), line_of(main, "# here"))


def test_a_module_that_another_finder_finds_is_watched(tmp_path: Path, take: Callable[..., Taken]) -> None:
    path = written(tmp_path / "far" / "edited_mine.py", "def step(n):\n    return n\n")

    class Editable:
        @staticmethod
        def find_spec(name: str, *_: Any) -> Any:
            return importlib.util.spec_from_file_location(name, path) if name == "edited_mine" else None

    sys.meta_path.append(Editable)
    main = written(tmp_path / "main.py", "import edited_mine\n" + LOOP.format("edited_mine.step(n)"))
    assert len(take("edited_mine:step", main)) == 6


class _Config:
    """A configuration whose attributes are entries, and which raises KeyError for others."""

    def __init__(self) -> None:
        self.__dict__["values"] = {"rate": 0.5}

    def __getattr__(self, name: str) -> Any:
        return self.values[name]


def test_attributes_are_not_asked_of_objects_that_answer_by_code_of_their_own() -> None:
    holder = torch.nn.Linear(2, 2)
    holder.config = _Config()
    assert "['rate']" in "".join(state.scalars([("", holder)]))


def test_arguments_are_made_outside_the_mode_in_which_the_check_begins() -> None:
    net = torch.nn.Linear(2, 1)
    call = live._Call([("", net)], (torch.ones(3, 2),), {}, None, modes.now([("", net)]))
    with torch.inference_mode():
        subject = live._subject(net.forward, None, [call], [])
        with torch.inference_mode(False), torch.enable_grad():
            given, _ = subject.inputs(0)
            subject.call(*given).sum().backward()
    assert net.weight.grad is not None


def test_what_was_seen_of_one_signature_counts_before_what_could_not_be_seen_of_another() -> None:
    results: dict[str, dict[str, Any]] = {
        "often": {"verdict": "silent_wrong", "said": "captures, but", "notes": []},
        "seldom": {"verdict": "lacking", "said": "the GPU has too little memory", "notes": []},
    }
    assert signatures.joined(results, {"often": 50, "seldom": 1})["verdict"] == "silent_wrong"
    drafts: list[dict[str, Any]] = []

    class Drafts(Alone):
        def draft(self, result: dict[str, Any]) -> None:
            drafts.append(result)

    of_second = signatures.Reports(Drafts(), "second", {"first": results["often"]}, {"first": 5, "second": 5})
    of_second.draft({"verdict": "capture_error", "said": "fails", "notes": []})
    assert [row["verdict"] for row in drafts[0]["signatures"]] == ["silent_wrong", "capture_error"]
    assert of_second.any("a question", True)


def test_a_thread_that_pins_memory_is_noted_while_it_runs() -> None:
    from cudagraph_skill.capture.guest import verdict
    from torch.utils.data._utils import pin_memory

    done = threading.Event()

    def _pin_memory_loop() -> None:  # that of torch ends at once without a GPU
        done.wait(10)

    assert callable(getattr(pin_memory, _pin_memory_loop.__name__))
    assert verdict.pinning_threads() == []
    loop = threading.Thread(target=_pin_memory_loop, daemon=True)
    loop.start()
    [note] = verdict.pinning_threads()
    assert "capture-pin-memory-thread" in note
    done.set()
    loop.join(10)
    assert verdict.pinning_threads() == []


def test_a_program_whose_interpreter_has_no_torch_is_told_so(
    take: Callable[..., Taken], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "without_torch", lambda: "this Python has no torch")
    path = written(tmp_path / "a.py", "def step(): pass\n\n\nraise ModuleNotFoundError(\"No module named 'torch'\")\n")
    assert take(f"{path}:step", path).said == "this Python has no torch"
