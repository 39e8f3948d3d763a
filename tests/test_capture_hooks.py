"""A target that calls a trainer, that is called elsewhere, or that something else replaced: what is named in its place."""

# ruff: noqa: E501 - a program as a user writes it stands on one line
from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

from cudagraph_skill.capture import reports, session
from cudagraph_skill.capture.guest import live
from cudagraph_skill.capture.output import text
from cudagraph_skill.capture.request import Request
from cudagraph_skill.capture.way_out import hook, ways_out
from cudagraph_skill.check.input.source import lines_of
from cudagraph_skill.check.output import Reader
from cudagraph_skill.text import Steps
from reported import Report
from user_files import same_interpreter, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["same_interpreter"]
pytestmark = pytest.mark.usefixtures("same_interpreter")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Run a program, written into a file, and return its result; where there would be a check, `calls` has the calls."""

    def check(self: Any) -> None:
        self.done = True
        signatures = dict(self._passed)
        self._report.result(
            {"said": "", "calls": [each for calls in self._calls.values() for each in calls], "seen": signatures}
        )

    def run(target: str, source: str, *arguments: str) -> dict[str, Any]:
        report = Report()
        main = written(tmp_path / "main.py", source)
        live.run({"target": target, "arguments": [str(main), *arguments]}, report)
        assert len(report.results) == 1
        return report.results[0]

    monkeypatch.setattr(live.Watch, "_check", check)
    return run


# A trainer of a package: it calls hooks of the user's again and again

TRAINER = """
import time


class Module:
    def training_step(self, batch):
        raise NotImplementedError

    def optimizer_step(self, closure):
        closure()
        time.sleep(0.002)


class Callback:
    def on_batch_end(self, number):
        pass


class Trainer:
    def __init__(self, callbacks=()):
        self.callbacks = callbacks

    def fit(self, module, loader):
        for number in range(3):
            time.sleep(0.002)  # sets up
        for number, batch in enumerate(loader):
            self._run_step(module, batch)
            for callback in self.callbacks:
                callback.on_batch_end(number)

    def _run_step(self, module, batch):
        module.optimizer_step(lambda: self.strategy_step(module, batch))

    def strategy_step(self, module, batch):
        return module.training_step(batch)
"""
PROGRAM = """
import sys
sys.path.insert(0, {packages!r})
import time
import torch
from standin.trainer import Callback, Module, Trainer


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        decode()
        return torch.ones(2)


def decode():
    time.sleep(0.02)


class Lit(Module):
    def forward(self, batch):
        time.sleep(0.002)

    def training_step(self, batch):
        self.forward(batch)
        time.sleep(0.001)


class Count(Callback):
    def on_batch_end(self, number):
        self.number = number


def batches():
    yield from torch.utils.data.DataLoader(Data())


def train():
    time.sleep(0.2)
    Trainer([Count()]).fit(Lit(), batches())


train()
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Return a program that uses a trainer in a folder of installed packages."""
    packages = tmp_path / "site-packages"
    written(packages / "standin" / "__init__.py", "from standin.trainer import Trainer\n")
    written(packages / "standin" / "trainer.py", TRAINER)
    return PROGRAM.format(packages=str(packages))


@pytest.mark.parametrize("target", ["train", "standin.trainer:Trainer.fit"])
def test_the_users_hooks_are_named_before_the_steps_of_the_trainer(
    run: Callable[..., dict[str, Any]], program: str, target: str
) -> None:
    said = run(target, program)["said"]
    named = [part.split("`")[0] for part in said.split("`--target ")[1:]]
    assert named == ["Lit.training_step", "Lit.forward", "standin.trainer:Module.optimizer_step"]
    assert said.count("(8 times, ") == 3
    assert "decode" not in said


def test_the_functions_of_the_package_that_lead_to_the_hooks_are_told(run: Callable[..., dict[str, Any]], program: str) -> None:
    result = run("train", program)
    names = [line["function"].rpartition(".")[2] for line in result["libraries"]]
    assert names[:2] == ["fit", "_run_step"]
    assert {line["path"].rpartition("/")[2] for line in result["libraries"]} == {"trainer.py"}
    assert reports.is_result(result)


@pytest.mark.parametrize("wrong", [{"path": 1, "function": ""}, {"path": ""}, "train"])
def test_lines_of_packages_that_are_none_are_no_result(wrong: Any) -> None:
    assert not reports.is_result({"verdict": "misuse", "said": "", "libraries": [wrong]})


def test_what_a_fit_of_the_user_calls_for_the_first_time_only_does_not_hide_its_steps(
    run: Callable[..., dict[str, Any]],
) -> None:
    source = """
    import time

    def step(n):
        time.sleep(2 if n == 0 else 0.2)

    def build(n):
        if n == 0:
            time.sleep(2)

    def fit():
        for n in range(5):
            build(n)
        for n in range(5):
            step(n)

    fit()
    """
    said = run("fit", textwrap.dedent(source))["said"]
    assert re.search(r"`--target step` \(5 times, [2-4]\d\d ms each\)$", said)
    assert "build" not in said


@pytest.mark.parametrize("kind", ["generator", "coroutine"])
def test_functions_whose_call_computes_nothing_are_not_named(run: Callable[..., dict[str, Any]], kind: str) -> None:
    makes = {
        "generator": "def each():\n    time.sleep(0.01)\n    yield\ndef fit():\n    for _ in range(5):\n        list(each())\n",
        "coroutine": "import asyncio\nasync def each():\n    time.sleep(0.01)\ndef fit():\n    for _ in range(5):\n        asyncio.run(each())\n",
    }
    assert "each" not in run("fit", f"import time\n{makes[kind]}fit()\n")["said"]


# What the references say of a trainer

FRAMES = {
    "lightning": ("lightning/pytorch/loops/fit_loop.py", "_FitLoop.advance", "training_step"),
    "pytorch_lightning": ("pytorch_lightning/loops/fit_loop.py", "advance", "automatic_optimization"),
    "fabric": ("lightning/fabric/wrappers.py", "_FabricOptimizer.step", "fabric.backward"),
    "transformers": ("transformers/trainer.py", "Trainer._run_epoch", "training_step"),
    "accelerate": ("accelerate/accelerator.py", "Accelerator.backward", "sync_gradients"),
}


@pytest.mark.parametrize("trainer", FRAMES)
def test_the_hook_of_a_known_trainer_is_told(trainer: str) -> None:
    path, function, word = FRAMES[trainer]
    way = hook([("/x/site-packages/some/trainer.py", "Trainer.fit"), (f"/x/site-packages/{path}", function)])
    assert way is not None
    assert word in way.hook
    assert way.hook.endswith(".")


def test_the_outermost_trainer_counts_and_others_have_none() -> None:
    lines = [(f"/x/site-packages/{path}", function) for path, function, _ in FRAMES.values()]
    outermost = hook([lines[3], lines[4]])
    assert outermost is not None
    assert outermost.reference.endswith("#transformers-trainer-step")
    assert hook([("/x/site-packages/accelerate/hooks.py", "AlignDevicesHook.pre_forward")]) is None
    assert hook([]) is None
    assert sum(bool(way.hook) for way in ways_out()) >= 4


def test_a_target_in_a_known_trainer_is_told_where_a_graph_goes() -> None:
    library = {"path": "/x/site-packages/lightning/pytorch/loops/fit_loop.py", "function": "_FitLoop.advance"}
    answer = {"verdict": "misuse", "said": "train was called 1 time", "libraries": [library]}
    result = session.joined_result(Request("train", "python", ".", program=("main.py",)), answer, [], {})
    reader = Reader(Steps(read=str, turn=str, ask=str, explain=str), lines=lines_of)
    written_out = text(result, "full", reader)
    assert "note: Lightning: a graph of the step goes in `training_step`" in written_out
    assert "references/libraries.md#lightning-graph-hook" in written_out.splitlines()[-1]


# A target that is never called

NET = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x


class Child(Net):
    def forward(self, x):
        return x + 1


def patched(x):
    return x - 1


net = Net()
"""
CALLS = "for _ in range(9):\n    net(torch.ones(2))\n"
REPLACED = {
    "object": ("Net.forward", "net.forward = patched\n", "an object has a forward of its own: `--target patched`"),
    "object, of a class": ("Net", "net.forward = patched\n", "an object has a forward of its own: `--target patched`"),
    "class": ("Net.forward", "Net.forward = lambda self, x: x\n", "forward is now a lambda ("),
    "function": ("patched", "def other(x):\n    return x\n\n\npatched = other\n", "patched is now `--target other`"),
    "subclass": ("Net.forward", "net = Child()\n", "a subclass defines forward itself: `--target "),
    "method of an object": ("Net.forward", "net.forward = Child().forward\n", "`--target "),
    "object that raises": (
        "Net.forward",
        "class Odd:\n    def __getattribute__(self, name):\n        raise OSError\n\n\nodd = Odd()\nnet = print\n",
        "`--target ",
    ),
    "object without code": (
        "patched",
        "class Odd:\n    def __getattr__(self, name):\n        raise OSError\n\n\npatched = Odd()\n",
        "name what the program calls",
    ),
    "nothing": ("patched", "", "patched was never called: name what the program calls"),
}


@pytest.mark.parametrize("kind", REPLACED)
def test_what_took_the_place_of_a_target_is_named(run: Callable[..., dict[str, Any]], kind: str) -> None:
    target, change, said = REPLACED[kind]
    assert said in run(target, f"{NET}{change}{CALLS}")["said"]


def test_a_target_that_is_replaced_after_its_first_calls_is_told(run: Callable[..., dict[str, Any]]) -> None:
    said = run("Net.forward", f"{NET}net(torch.ones(2))\nnet.forward = patched\n{CALLS}")["said"]
    assert said.endswith("was called 1 time: use a smaller `--skip`; an object has a forward of its own: `--target patched`")


def test_a_target_that_a_subclass_calls_is_the_right_one(run: Callable[..., dict[str, Any]]) -> None:
    change = "class Small(Net):\n    def forward(self, x):\n        return super().forward(x)\n\n\nSmall()(torch.ones(2))\n"
    assert run("Net.forward", f"{NET}{change}")["said"].endswith("was called 1 time: use a smaller `--skip`")


def test_a_replacement_that_calls_the_target_is_no_obstacle(run: Callable[..., dict[str, Any]]) -> None:
    change = "before = net.forward\nnet.forward = lambda x: before(x) + 1\n"
    assert len(run("Net.forward", f"{NET}{change}{CALLS}")["calls"]) == 6


def test_the_module_that_a_name_is_imported_from_is_told(run: Callable[..., dict[str, Any]], program: str) -> None:
    said = run("standin:Trainer.fit", program)["said"]
    assert "standin/__init__.py defines no Trainer.fit" in said
    assert said.endswith("; Trainer is imported from standin.trainer")


def test_a_function_that_a_trainer_is_given_is_watched(run: Callable[..., dict[str, Any]]) -> None:
    source = "class Trainer:\n    def fit(self, after):\n        for n in range(9):\n            after(n)\n\n\ndef after(n):\n    return n\n\n\nTrainer().fit(after)\n"
    assert [call.args for call in run("after", source)["calls"]] == [(n,) for n in range(3, 9)]


def test_calls_on_other_devices_have_signatures_of_their_own(run: Callable[..., dict[str, Any]]) -> None:
    source = "import torch\n\n\ndef step(x):\n    return x\n\n\nfor n in range(30):\n    step(torch.ones(2, device=('cpu', 'meta')[n % 2]))\n"
    assert set(run("step", source)["seen"]) == {"float32[2] on cpu", "float32[2] on meta"}


# Other processes

FORKED = """
import os
import sys


def step(n):
    return n


def work():
    for n in range(20):
        step(n)


if os.fork() == 0:
    work()
    os._exit(7)
os.stat("/")
code = os.waitstatus_to_exitcode(os.wait()[1])
assert code == 7, code
"""


def test_a_fork_makes_its_calls_without_us_and_is_told(run: Callable[..., dict[str, Any]]) -> None:
    assert run("step", FORKED)["said"].endswith(
        "step was never called: a process that the program forked calls it, and only the first one is watched: have it run there"
    )


def test_calls_after_a_fork_are_those_of_the_first_process(run: Callable[..., dict[str, Any]]) -> None:
    assert [call.args for call in run("step", f"{FORKED}work()\n")["calls"]] == [(n,) for n in range(3, 9)]


def test_processes_that_the_program_started_are_told(run: Callable[..., dict[str, Any]]) -> None:
    source = "import subprocess, sys\n\n\ndef step():\n    pass\n\n\nsubprocess.run([sys.executable, '-c', ''], check=True)\n"
    assert run("step", source)["said"].endswith("calls in the processes that the program started are not seen")


WORKERS = """
import torch


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, number):
        return torch.ones(1) * number


def collate(samples):
    return torch.stack(samples)


def step(x):
    return x


for x in torch.utils.data.DataLoader(Data(), 2, num_workers=1, collate_fn=collate, multiprocessing_context="fork"):
    step(x)
"""


@pytest.mark.parametrize("target", ["collate", "Data.__getitem__"])
def test_workers_that_call_the_target_go_on(run: Callable[..., dict[str, Any]], target: str) -> None:
    assert "a process that the program forked calls it" in run(target, WORKERS)["said"]


# How a program ends


def test_a_program_that_ends_at_a_signal_of_its_own_says_how_often_the_target_was_called(
    run: Callable[..., dict[str, Any]],
) -> None:
    source = """
    import os
    import signal
    import sys

    def step():
        pass

    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        for n in range(2):
            step()
        os.kill(os.getpid(), signal.SIGTERM)
        step()
    finally:
        signal.signal(signal.SIGTERM, before)
    """
    assert "step was called 2 times: use a smaller `--skip`" in run("step", textwrap.dedent(source))["said"]


def test_a_program_that_gives_its_process_to_another_is_told() -> None:
    request = Request("step", "python", ".", program=("main.py",))
    result = session.joined_result(request, None, [], {"how": "exit", "detail": "0"})
    assert result.verdict == "misuse"
    assert "another program took its place" in result.said
