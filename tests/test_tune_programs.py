"""`skill tune` of a call in a program: what it refuses, how often it starts the program, and the code that it writes."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.capture import session
from cudagraph_skill.capture.host import Ended
from cudagraph_skill.capture.request import Request
from cudagraph_skill.errors import SkillError
from cudagraph_skill.tune import code, output, trials, ways
from cudagraph_skill.tune.trials import Agreement, Times, Trial, Tuning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EQUAL = Agreement("equal", 0.0, "", 0)
SOURCE = '''"""A program."""
import argparse

from lib.parts import loss_of


class Trainer:
    def step(self, x):
        return loss_of(x)

    @staticmethod
    @torch.no_grad()
    def plain(x):
        return x

    @classmethod
    def made(cls, x):
        return x


class Net:
    def forward(self, x):
        return x


def main():
    trainer = Trainer()

    def inner(x):
        return trainer.step(x)

    for x in range(40):
        inner(x)


if __name__ == "__main__":
    main()
'''
LIBRARY = "def loss_of(x):\n    return x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a program and a module that it imports."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SOURCE)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "parts.py").write_text(LIBRARY)
    return tmp_path


def request(target: str, *program: str, folder: str = ".") -> Request:
    """Return the request for a target in a program."""
    return Request(target, sys.executable, folder, program=program or ("train.py",))


def tuning(asked: Request, name: str = ways.MANUAL, path: str = "", defined: str = "") -> Tuning:
    """Return a result in which this way is the fastest; the run found the target in the file of this path."""
    answer: dict[str, Any] = {"verdict": "safe", "said": "captures", "causes": []}
    answer["target"] = {"path": path, "line": 1, "name": defined}
    rounds = {way: [Times(each, each, each, 0.1, 1 << 20)] for way, each in ((ways.EAGER, 1e-3), (name, 1e-4))}
    tried = [Trial(way, EQUAL, times, ("self.net.0", "argument Net.heads.1.proj")) for way, times in rounds.items()]
    return Tuning(session.joined_result(asked, answer, [], {}), tried)


# What it refuses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "Trainer.step", "--write", "new.py"], "skill tune: --write has a module that a program does not call"),
        (["--target", "Trainer.step", "--continue"], "leave out --continue"),
        (["--target", "Trainer.step", "--nproc", "2"], "without --nproc"),
        (["train.py:Trainer.step"], "name the function to capture with --target"),
        (["--target", "Trainer.step", "--inputs", "batch"], "the program passes its own"),
        ([], "add --target FUNCTION"),
    ],
)
def test_misuse_is_said_before_the_program_is_started(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (folder / "train.py").exists()
    assert cli.main(["tune", *arguments, "--", "python", "train.py"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


# How often it starts the program --------------------------------------------------------------------------------------


class Machine:
    """Answers as guests do; the check and each other process take so many seconds of its clock."""

    def __init__(self, check: float, process: float, way: float = 1e-3, compiled: float = 0.0) -> None:
        self.now, self._check, self._process = 0.0, check, process
        self._ways = {"eager": 1e-3, "compile": compiled or way}
        self._other = way
        self.asked: list[Request] = []
        self.forwarded: list[bool] = []

    def monotonic(self) -> float:
        """Return the seconds so far."""
        return self.now

    def mapped(self, requests: list[Request], *_: Any) -> Iterator[Any]:
        """Yield the result of the check."""
        self.now += self._check
        yield tuning(requests[0]).checked

    def answered(self, asked: Request, _guests: Any, listener: session.Listener) -> Ended:
        """Return what a process found: each way equals eager, which takes 1 ms."""
        self.now += self._process
        self.asked.append(asked)
        self.forwarded.append(listener.forward is not None)
        assert asked.way is not None
        compared = {"agreement": "equal", "worst": 0.0, "path": "", "of": 0, "modules": [], "in_inference_mode": False}
        seconds = self._ways.get(asked.way.name, self._other)
        times = Times(seconds, seconds, seconds, 0.1, 1 << 20)._asdict()
        return Ended(
            {"verdict": "safe", "said": "", "way": times if asked.way.task == "time" else compared}, [], {"how": "done"}, ""
        )


def tuned(asked: Request, monkeypatch: pytest.MonkeyPatch, **seconds: float) -> tuple[Tuning, Machine]:
    """Tune on a machine whose processes take these seconds."""
    machine = Machine(**seconds)
    monkeypatch.setattr(trials, "time", SimpleNamespace(monotonic=machine.monotonic))
    monkeypatch.setattr(session, "mapped", machine.mapped)
    monkeypatch.setattr(session, "answered", machine.answered)
    found = trials.tuned(asked, session.Guests(), session.Listener(lambda _: None, forward=lambda _: None))
    assert found is not None
    return found, machine


def test_a_quick_program_is_timed_in_three_rounds_and_says_how_often_it_was_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, machine = tuned(request("Trainer.step", folder=str(folder)), monkeypatch, check=5.0, process=2.0)
    timed = [trial for trial in found.trials if trial.rounds]
    assert {len(trial.rounds) for trial in timed} == {3}
    assert found.notes == [
        f"the program was started {1 + len(machine.asked)} times, each time up to the calls that were measured"
    ]
    assert 1 + len(machine.asked) <= 25
    assert machine.forwarded == [False] * len(machine.asked)


def test_what_keeps_results_of_a_graph_is_told_to_clone_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request("Trainer.step", folder=str(folder))
    found, _ = tuned(asked, monkeypatch, check=5.0, process=2.0, way=1e-4)
    assert [note for note in output.notes(found) if "clone" in note] == []  # the simplest of equals is torch.compile
    found, _ = tuned(asked, monkeypatch, check=5.0, process=2.0, way=1e-4, compiled=1e-3)
    assert len([note for note in output.notes(found) if note.endswith("let it keep a clone")]) == 1


def test_a_program_whose_check_takes_long_is_timed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, machine = tuned(request("Trainer.step", folder=str(folder)), monkeypatch, check=25.0, process=2.0)
    assert {len(trial.rounds) for trial in found.trials if trial.rounds} == {1}
    assert found.notes[0] == "1 of 3 rounds was made: the check of the program took 25 s, and each timing starts it anew"
    assert machine.now < 60


def test_a_callable_whose_check_takes_long_has_all_rounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = tuned(Request("train.py:Net.forward", sys.executable, str(folder)), monkeypatch, check=25.0, process=2.0)
    assert {len(trial.rounds) for trial in found.trials if trial.rounds} == {3}
    assert found.notes == []


def test_no_process_starts_after_ten_minutes_and_what_was_left_out_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, machine = tuned(request("Trainer.step", folder=str(folder)), monkeypatch, check=100.0, process=100.0)
    why = {trial.name: trial.why for trial in found.trials}
    assert why[ways.MANUAL_COMPILED] == "not begun: 400 s had passed"
    assert why[ways.MODULES] == "not begun: 600 s had passed"
    assert {trial.name for trial in found.trials if trial.rounds} == {ways.EAGER, ways.COMPILE}
    assert machine.now <= 700


# The code -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [ways.COMPILE, ways.REDUCE_OVERHEAD, ways.MANUAL, ways.MANUAL_COMPILED])
@pytest.mark.parametrize(
    ("target", "line"), [("Trainer.step", "    def step(self, x):"), ("main.<locals>.inner", "    def inner(x):")]
)
def test_the_code_of_a_program_is_a_change_of_its_file_that_applies(name: str, target: str, line: str, folder: Path) -> None:
    asked = request(f"train.py:{target}", folder=str(folder))
    proposal = code.proposed(asked, tuning(asked, name))
    assert proposal.said == ""
    done = subprocess.run(["patch", "-p0"], input=proposal.code, text=True, capture_output=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout
    lines = (folder / "train.py").read_text().splitlines()
    decorators = [f"    @{each}" for each in ways.WAYS[name].decorators]
    assert lines[lines.index(line) - len(decorators) : lines.index(line)] == decorators
    compile((folder / "train.py").read_text(), "train.py", "exec")


def test_a_bare_name_is_one_of_the_program_and_a_class_is_its_forward_pass(folder: Path) -> None:
    for target, line in (("Trainer.plain", " @torch.no_grad()"), ("Net", " def forward(self, x):")):
        asked = request(target, folder=str(folder))
        lines = code.proposed(asked, tuning(asked)).code.splitlines()
        assert [lines[lines.index("+    @Graphed") + 1].replace("    ", "")] == [line.replace("    ", "")]
    asked = request("Net", "-m", "train", folder=str(folder))
    [change, _] = code.proposed(asked, tuning(asked, path=str(folder / "train.py"), defined="Net.forward")).changes
    assert "    @Graphed\n    def forward" in change.after


def test_a_file_that_the_program_imports_gets_the_wrapper_beside_it(folder: Path) -> None:
    asked = request("lib/parts.py:loss_of", folder=str(folder))
    [change, wrapper] = code.proposed(asked, tuning(asked)).changes
    assert change.after.startswith("from .graphed import Graphed\n@Graphed\ndef loss_of")
    assert str(wrapper.path) == "lib/graphed.py"
    asked = request("lib.parts:loss_of", folder=str(folder))
    assert code.proposed(asked, tuning(asked, path="lib/parts.py", defined="loss_of")).changes == [change, wrapper]
    inside = request("lib/parts.py:loss_of", "lib/parts.py", folder=str(folder))
    assert "from graphed import Graphed" in code.proposed(inside, tuning(inside)).code


def test_an_installed_package_is_not_changed(folder: Path) -> None:
    installed = folder / "env" / "site-packages" / "kit"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text(
        "def act(x):\n    return x\n\n\nclass Net:\n    def forward(self, x):\n        return x\n"
    )
    for target, use in (("act", "call `act` of the module of code instead"), ("Net.forward", "import the module of code")):
        asked = request(f"kit:{target}", folder=str(folder))
        proposal = code.proposed(asked, tuning(asked, path=str(installed / "__init__.py"), defined=target))
        assert proposal.said.endswith(f"is of an installed package, which is not to be changed: in the program, {use}")
        assert proposal.changes == ()
        assert "from kit import " in proposal.code
        compile(proposal.code, "code.py", "exec")


def test_what_no_decorator_can_do_is_told_with_what_there_is(folder: Path) -> None:
    asked = request("Trainer.made", folder=str(folder))
    assert "Trainer.made is a classmethod" in code.proposed(asked, tuning(asked)).said
    asked = request("Trainer.step", folder=str(folder))
    proposal = code.proposed(asked, tuning(asked, ways.MODULES))
    assert "is around modules: take the module of code instead" in proposal.said
    assert "    graph_module(self.net[0])\n    graph_module(Net.heads[1].proj)\n" in proposal.code
    assert "def graph_modules(self: Any, Net: Any) -> None:" in proposal.code
    compile(proposal.code, "code.py", "exec")
    (folder / "graphed.py").write_text("mine = 1\n")
    proposal = code.proposed(asked, tuning(asked))
    assert "is another module" in proposal.said
    assert proposal.code.endswith("# In train.py, below its definition: Trainer.step = Graphed(Trainer.step)\n")


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("net.layers.0.fc", "net.layers[0].fc"),
        ("argument Net.1", "Net[1]"),
        ("nets[0].fc", "nets[0].fc"),
        ("helper:net.fc", "net.fc"),
        ("().fc", "module_fc"),
        ("net.my-part", "net.my-part"),
    ],
)
def test_paths_of_modules_are_spelled_as_python(path: str, spelled: str) -> None:
    assert code._spelled(path) == spelled


@pytest.mark.parametrize("option", ["", "--patch", "--apply"])
def test_the_file_of_a_program_is_changed_only_if_asked(option: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "tuned", lambda asked, *_: tuning(asked))
    given = [option] if option else []
    assert cli.main(["tune", "--target", "Trainer.step", *given, "--", sys.executable, "train.py"]) == 0
    assert ("@Graphed" in (folder / "train.py").read_text()) == (option == "--apply")
    assert (folder / "graphed.py").exists() == (option == "--apply")


def test_a_callable_alone_gets_a_module(folder: Path) -> None:
    asked = Request("train.py:Net.forward", sys.executable, str(folder))
    proposal = code.proposed(asked, tuning(asked))
    assert (proposal.changes, "from train import Net" in proposal.code) == ((), True)
    with pytest.raises(SkillError, match="no such file"):
        code.proposed(asked._replace(target="gone.py:step"), tuning(asked))
