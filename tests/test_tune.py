"""`skill tune`: which way it chooses, what it says, and the code that it writes; times need a GPU: benchmarks/tuning.py."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.capture import session
from cudagraph_skill.capture.host import Ended
from cudagraph_skill.capture.request import Request, Way, to_guest
from cudagraph_skill.check import check_paths
from cudagraph_skill.check.input.settings import Options, settings
from cudagraph_skill.check.output import Reader
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import Steps
from cudagraph_skill.tune import code, output, trials, ways
from cudagraph_skill.tune.choice import choice
from cudagraph_skill.tune.trials import Agreement, Times, Trial, Tuning

if TYPE_CHECKING:
    from pathlib import Path

READER = Reader(Steps(lambda what: f"read {what}", str, str, lambda what: f"explain {what}"), lambda _: ([], []), False)
AFTER = "references/after-capture.md#when-to-stop-a-replay-against-the-limit-of-skill-decide"
FOUND = {"agreement": "equal", "worst": 0.0, "path": "", "of": 0, "modules": [], "in_inference_mode": False}
EQUAL, WRONG = Agreement("equal", 0.0, "", 0), Agreement("wrong", 0.5, "result", 4)
SOURCE = '''"""A program."""
import torch
from torch import nn

model = nn.Linear(4, 4)


def batch(device):
    return (torch.randn(4, 4, device=device),)


def make(device):
    return {"fn": step, "inputs": lambda: batch(device)}


def step(x):
    return model(x)


class Trainer:
    @torch.no_grad()
    def step(self, x):
        return x

    @torch.inference_mode()
    def score(self, x):
        return x
'''


def timed(name: str, *medians: float, agreement: Agreement | None = EQUAL, **more: Any) -> Trial:
    """Return a way whose rounds took these microseconds a call."""
    rounds = [Times(median * 1e-6, median * 0.99e-6, median * 1.01e-6, 0.5, 1 << 20) for median in medians]
    return Trial(name, None if name == ways.EAGER else agreement, rounds, **more)


EAGER = timed(ways.EAGER, 100.0, 102.0, 104.0)


def chosen(*tried: Trial) -> tuple[str, tuple[str, ...]]:
    """Return the way that is chosen beside eager, and those that are as fast."""
    found = choice([EAGER, *tried])
    assert found is not None
    return found.trial.name, tuple(found.tied)


def test_the_fastest_right_way_is_chosen() -> None:
    fast, slow = timed(ways.MANUAL_COMPILED, 20.0, 21.0, 22.0), timed(ways.MANUAL, 40.0, 41.0, 42.0)
    assert chosen(slow, fast) == (ways.MANUAL_COMPILED, ())
    assert chosen(slow, replace(fast, agreement=WRONG)) == (ways.MANUAL, ())
    assert chosen(slow, replace(fast, agreement=Agreement("unknown", 0.0, "", 0))) == (ways.MANUAL, ())
    assert chosen(slow, replace(fast, agreement=Agreement("rounding", 1e-7, "result", 3)))[0] == ways.MANUAL_COMPILED
    assert chosen(Trial(ways.MANUAL, why="CG201 reads a tensor"))[0] == ways.EAGER
    assert chosen(replace(fast, why="raised in its last round"))[0] == ways.EAGER


@pytest.mark.parametrize(
    ("compiled", "graph", "kind", "of"),
    [
        (EQUAL, EQUAL, "equal", "equal"),
        (Agreement("rounding", 1e-3, "w", 2), EQUAL, "rounding", "equal"),
        (EQUAL, Agreement("rounding", 1e-3, "w", 2), "rounding", "rounding"),
        (Agreement("rounding", 1e-3, "w", 2), WRONG, "wrong", "wrong"),
        (WRONG, EQUAL, "wrong", "equal"),
        (None, EQUAL, "unknown", "equal"),
    ],
)
def test_a_graph_of_compiled_calls_is_as_far_from_eager_as_these_or_further(
    compiled: Agreement | None, graph: Agreement, kind: str, of: str
) -> None:
    given = {name: trials.Trial(name, agreement=graph) for name in (ways.REDUCE_OVERHEAD, ways.MANUAL_COMPILED)}
    found = trials.against_eager({ways.COMPILE: trials.Trial(ways.COMPILE, agreement=compiled), **given})
    for name in given:
        agreement = found[name].agreement
        assert agreement is not None
        assert (agreement.kind, agreement.compiled) == (kind, of)


def test_a_graph_that_failed_stays_without_a_comparison() -> None:
    failed = {name: trials.Trial(name, why="raised") for name in (ways.REDUCE_OVERHEAD, ways.MANUAL_COMPILED)}
    found = trials.against_eager({ways.COMPILE: trials.Trial(ways.COMPILE, agreement=EQUAL), **failed})
    assert [found[name] for name in failed] == list(failed.values())


def test_within_the_noise_the_simplest_is_chosen() -> None:
    fastest, near = timed(ways.MANUAL_COMPILED, 40.0, 42.0, 44.0), timed(ways.MANUAL, 43.0, 45.0, 46.0)
    assert chosen(fastest, near) == (ways.MANUAL, (ways.MANUAL_COMPILED,))
    assert chosen(timed(ways.MANUAL, 101.0, 103.0, 105.0)) == (ways.EAGER, (ways.MANUAL,))


def test_without_times_of_eager_nothing_is_chosen() -> None:
    assert choice([replace(EAGER, rounds=()), timed(ways.MANUAL, 10.0)]) is None


def tuning(*tried: Trial, verdict: str = "safe") -> Tuning:
    """Return a result with these ways beside eager."""
    answer: dict[str, Any] = {"verdict": verdict, "said": "seen", "causes": []}
    checked = session.joined_result(Request("train.py:step", sys.executable, "."), answer, [], {})
    return Tuning(checked, [EAGER, *tried])


def test_the_table_has_each_way_and_why_another_was_not_timed() -> None:
    said = output.text(
        tuning(
            timed(ways.MANUAL, 40.0, modules=()),
            timed(ways.COMPILE, 90.0, agreement=WRONG),
            Trial(ways.PARTIAL, why="the whole call captures"),
        ),
        READER,
        "import train\n",
    )
    lines = said.splitlines()
    assert lines[0].startswith("tune: train.py:step: manual: 2.55 times as fast as eager, 102 us to 40 us a call, equal to it")
    assert lines[1].split()[:3] == ["way", "against", "eager"]
    assert [line.split()[0] for line in lines[2:6]] == ["eager", "manual", "compile", "partial"]
    assert "note: compile is wrong from call 5 on, in result" in lines
    assert lines[-3:] == [
        "import train",
        "",
        "next: read references/after-capture.md#when-to-stop-a-replay-against-the-limit-of-skill-decide",
    ]


def test_data_has_all_rounds_and_the_choice() -> None:
    data = output.data(tuning(timed(ways.MANUAL, 40.0, 41.0)), READER, "code")
    assert (data["tuning"]["way"], data["tuning"]["code"], data["verdict"]) == ("manual", "code", "safe")
    assert [len(way["rounds"]) for way in data["tuning"]["ways"]] == [3, 2]


def test_exit_codes_tell_whether_a_way_is_faster() -> None:
    assert output.exit_code(tuning(timed(ways.MANUAL, 40.0))) == 0
    assert output.exit_code(tuning(timed(ways.MANUAL, 140.0))) == 1
    assert output.said(tuning(timed(ways.MANUAL, 140.0))).startswith("stay eager: no right way is faster; ")
    assert output.exit_code(replace(tuning(verdict="not_repeatable"), trials=())) == 4


def test_a_way_that_contends_is_timed_again() -> None:
    found = {each.name: each for each in (EAGER, timed(ways.MANUAL, 40.0), timed(ways.COMPILE, 90.0))}
    assert [trials._contends(found, name) for name in found] == [True, True, False]
    assert trials._contends({**found, "new": Trial("new", EQUAL)}, "new")
    assert not trials._contends({**found, "new": Trial("new", why="raised")}, "new")


@pytest.mark.parametrize(
    ("found", "task", "read"),
    [
        ({"error": "no", "lacks_memory": False, "path": "", "line": 0}, "compare", True),
        ({"error": "no", "lacks_memory": 1, "path": "", "line": 0}, "time", False),
        (FOUND, "compare", True),
        ({"agreement": "equal"}, "compare", False),
        ({}, "compile", True),
        ({"median": 1.0, "least": 1.0, "most": 1.0, "set_up": 0.1, "memory": 1}, "time", True),
        ({"median": "1"}, "time", False),
        (None, "time", False),
    ],
)
def test_reports_of_another_form_are_not_read(found: Any, task: str, read: bool) -> None:
    assert trials.is_found(found, task) is read


class Guest:
    """Answers as a guest would, for `trials.session`; of ways that run beside others it may say otherwise."""

    def __init__(self, answers: dict[tuple[str, str], list[dict[str, Any]]], late: str = "") -> None:
        self.answers, self.late = answers, late
        self.asked: list[tuple[str, str]] = []
        self.deadlines: dict[tuple[str, str], float] = {}

    def answered(self, request: Request, *_: Any) -> Ended:
        """Return the next answer for the way and the task of a request, the last one again."""
        assert request.way is not None
        key = (request.way.name, request.way.task)
        self.asked.append(key)
        self.deadlines[key] = request.deadline
        if request.way.name == self.late:
            return Ended(None, [], {"how": "deadline", "detail": f"{request.deadline:g} s"}, "")
        given = self.answers.get(key, [FOUND])
        return Ended({"verdict": "safe", "way": given.pop(0) if len(given) > 1 else given[0]}, [], {"how": "done"}, "")


def compared(guest: Guest, monkeypatch: pytest.MonkeyPatch, draws: bool, passed: float = 0.0) -> dict[str, Trial]:
    """Return what comparing all ways but eager calls finds, three beside each other, when seconds have passed."""
    monkeypatch.setattr(session, "answered", guest.answered)
    monkeypatch.setattr(trials, "_beside", lambda _: 3)
    with session.Guests() as guests:
        request = Request("train.py:step", sys.executable, ".", measure="ways")
        with trials._Trials(request, guests, session.Listener(lambda _: None), time.monotonic() - passed) as made:
            return made.compared({name: Trial(name) for name in ways.WAYS}, draws)


def test_ways_are_compared_beside_each_other_and_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest({})
    found = compared(guest, monkeypatch, draws=False)
    assert list(found) == list(ways.WAYS)
    assert [name for name, trial in found.items() if trial.agreement is None] == [ways.EAGER]
    assert {task for _, task in guest.asked} <= {"import", "compare"}


def test_a_call_that_draws_is_compiled_for_the_timings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest({})
    compared(guest, monkeypatch, draws=True)
    assert sorted(name for name, task in guest.asked if task == "compile") == ["compile", "reduce-overhead"]


def test_a_way_that_lacked_memory_beside_others_is_compared_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = {"error": "the GPU has too little memory for this way", "lacks_memory": True, "path": "", "line": 0}
    raised = {"error": "ValueError: no", "lacks_memory": False, "path": "", "line": 0}
    guest = Guest({("manual", "compare"): [lacks, FOUND], ("compile", "compare"): [raised], ("eager", "compare"): [FOUND]})
    found = compared(guest, monkeypatch, draws=False)
    assert (found[ways.MANUAL].agreement, found[ways.MANUAL].why) == (EQUAL, "")
    assert guest.asked.count(("manual", "compare")) == 2
    assert (found[ways.COMPILE].why, found[ways.COMPILE].explained) == ("ValueError: no", "")
    assert guest.asked.count(("compile", "compare")) == 1


def test_an_error_that_the_index_knows_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    error = "BackendCompilerFailed: RuntimeError: Cannot set version_counter for inference tensor"
    raised = {"error": error, "lacks_memory": False, "path": "score.py", "line": 26}
    found = compared(Guest({("compile", "compare"): [raised]}), monkeypatch, draws=False)
    assert found[ways.COMPILE].explained == "compile-fails-in-inference-mode"
    said = output.text(tuning(found[ways.COMPILE]), READER, "")
    assert f"{error} (score.py:26); more: explain compile-fails-in-inference-mode" in said


def test_a_way_that_lacks_memory_alone_too_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = {"error": "the GPU has too little memory for this way", "lacks_memory": True, "path": "", "line": 0}
    found = compared(Guest({("manual", "compare"): [lacks]}), monkeypatch, draws=False)
    assert found[ways.MANUAL].why == "the GPU has too little memory for this way"


def test_a_way_that_had_no_more_time_is_not_waited_for_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest({}, late="reduce-overhead")
    found = compared(guest, monkeypatch, draws=False)
    assert guest.asked.count(("reduce-overhead", "compare")) == 1
    assert "had not come back" in found[ways.REDUCE_OVERHEAD].why
    assert "`--deadline`" in found[ways.REDUCE_OVERHEAD].why
    assert found[ways.MANUAL].agreement == EQUAL


@pytest.mark.parametrize(("passed", "most"), [(0.0, 120.0), (70.0, 80.0), (200.0, 1.0)])
def test_comparisons_leave_time_for_a_round_of_timings(passed: float, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest({})
    compared(guest, monkeypatch, draws=False, passed=passed)
    assert guest.deadlines["manual", "compare"] == pytest.approx(most, abs=5.0)


def test_the_guest_gets_the_way_and_what_to_import_first() -> None:
    request = Request("pkg.mod:step", sys.executable, ".", measure="ways", way=Way("compile", "compare", True, ""))
    wire = to_guest(request)
    assert (wire["measure"], wire["way"]["name"], wire["way"]["task"]) == ("ways", "compile", "compare")
    assert "torch._dynamo" in wire["imports"]
    assert to_guest(request._replace(way=Way("eager", "time", False, "")))["imports"] == []


# The code -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a program in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SOURCE)
    return tmp_path / "train.py"


def written(target: str, name: str, *modules: str, **more: Any) -> str:
    """Return the module that is written for a target."""
    return code.module(Trial(name, modules=modules), code.target(Request(target, sys.executable, ".", **more)))


@pytest.mark.parametrize("name", [name for name in ways.WAYS if name != ways.EAGER])
@pytest.mark.parametrize("target", ["train.py:step", "train.py:Trainer.step", "train.py"])
def test_the_module_is_python_that_the_check_finds_nothing_in(name: str, target: str, program: Path) -> None:
    source = written(target, name, "model")
    assert ast.get_docstring(ast.parse(source)) is not None
    assert "__future__" in source.splitlines()[2]
    file = program.with_name("graphed_train.py")
    file.write_text(source)
    assert check_paths([str(file)], settings(file, Options())).findings == []


def test_the_module_has_the_function_under_its_own_name(program: Path) -> None:
    assert written("train.py:step", ways.MANUAL).endswith("\n\n\nstep = Graphed(eager)\n")
    assert written("train.py:step", ways.MANUAL, warmup=11).endswith("step = Graphed(eager, warm_ups=11)\n")
    assert written("train.py:Trainer.step", ways.MANUAL).endswith("Trainer.step = Graphed(Trainer.step)\n")
    assert written("train.py:step", ways.MODULES, "model").endswith("graph_module(program.model)\nstep = program.step\n")
    assert "def graph_modules(net: Any) -> None:" in written("train.py:Trainer.step", ways.MODULES, "net.a", "net.b")
    assert "    made = make_eager(device)\n" in written("train.py", ways.COMPILE)
    program.with_name("1st.py").write_text(SOURCE)
    assert 'eager = __import__("importlib").import_module("1st").step' in written("1st.py:step", ways.MANUAL)


@pytest.mark.parametrize(
    ("name", "decorators"),
    [
        (ways.MANUAL, ["Graphed", "torch.inference_mode()"]),
        (ways.COMPILE, ["torch.inference_mode()", "torch.compile"]),
        (ways.REDUCE_OVERHEAD, ["torch.inference_mode()", "reduce_overhead"]),
        (ways.MANUAL_COMPILED, ["Graphed", "torch.inference_mode()", "torch.compile"]),
    ],
)
@pytest.mark.usefixtures("program")
def test_what_compiles_goes_below_the_decorator_for_inference_mode(name: str, decorators: list[str]) -> None:
    place = code.target(Request("train.py:Trainer.score", sys.executable, "."))
    [change, *_] = code.changes(Trial(name, in_inference_mode=True), place)
    function = next(
        node for node in ast.walk(ast.parse(change.after)) if isinstance(node, ast.FunctionDef) and node.name == "score"
    )
    assert [ast.unparse(each) for each in function.decorator_list] == decorators


@pytest.mark.usefixtures("program")
def test_a_module_compiles_below_the_decorator_for_inference_mode() -> None:
    place = code.target(Request("train.py:Trainer.score", sys.executable, "."))
    source = code.module(Trial(ways.MANUAL_COMPILED, in_inference_mode=True), place)
    assert source.endswith("Trainer.score = Graphed(torch.inference_mode()(torch.compile(Trainer.score.__wrapped__)))\n")
    with pytest.raises(SkillError, match="is not decorated with"):
        code.changes(
            Trial(ways.COMPILE, in_inference_mode=True), code.target(Request("train.py:Trainer.step", sys.executable, "."))
        )


def test_a_file_of_a_package_is_imported_by_its_dotted_name(program: Path) -> None:
    package = program.parent / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "steps.py").write_text(SOURCE)
    assert "from pkg.steps import step as eager" in written("pkg/steps.py:step", ways.MANUAL)


@pytest.mark.parametrize("name", [ways.COMPILE, ways.REDUCE_OVERHEAD, ways.MANUAL, ways.MANUAL_COMPILED])
@pytest.mark.parametrize("target", ["step", "Trainer.step"])
def test_the_patch_decorates_the_function_and_applies(name: str, target: str, program: Path) -> None:
    changes = code.changes(Trial(name), code.target(Request(f"train.py:{target}", sys.executable, ".")))
    diff = "".join(change.diff() for change in changes)
    done = subprocess.run(["patch", "-p0"], input=diff, text=True, capture_output=True, check=False, cwd=program.parent)
    assert done.returncode == 0, done.stdout
    tree = ast.parse(program.read_text())
    [function] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == "step"
        and node.decorator_list
        and node.col_offset == 4 * target.count(".")
    ]
    decorators = [ast.unparse(each) for each in function.decorator_list]
    assert decorators == [*ways.WAYS[name].decorators, *(["torch.no_grad()"] if "." in target else [])]
    assert program.read_text() == changes[0].after
    assert all(change.path.read_text() == change.after for change in changes)


@pytest.mark.parametrize(
    ("target", "name", "said"),
    [
        ("train.py", ways.MANUAL, "is named as FILE:FUNCTION"),
        ("train.py:model", ways.MANUAL, "has no `def model`"),
        ("train.py:step", ways.MODULES, "is around modules"),
    ],
)
def test_what_no_decorator_can_do_is_refused_in_one_sentence(target: str, name: str, said: str, program: Path) -> None:
    assert program.exists()
    with pytest.raises(SkillError, match=said):
        code.changes(Trial(name), code.target(Request(target, sys.executable, ".")))


def test_a_patch_keeps_line_ends_and_the_byte_order_mark(program: Path) -> None:
    program.write_bytes(
        b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").replace("model = ", "page = '\x0c'\r\nmodel = ").encode()
    )
    [change, _] = code.changes(Trial(ways.MANUAL), code.target(Request("train.py:step", sys.executable, ".")))
    lines = change.after.split("\r\n")
    assert lines[lines.index("def step(x):") - 1] == "@Graphed"
    assert (change.after[0], change.after.count("\n")) == ("\N{ZERO WIDTH NO-BREAK SPACE}", len(lines) - 1)
    program.write_bytes(b"# \xe9\n# coding: latin-1\n" + SOURCE.encode())
    with pytest.raises(SkillError, match="not UTF-8"):
        code.changes(Trial(ways.MANUAL), code.target(Request("train.py:step", sys.executable, ".")))


def test_another_module_of_the_wrappers_name_stays(program: Path) -> None:
    program.with_name("graphed.py").write_text("mine = 1\n")
    with pytest.raises(SkillError, match="is another module"):
        code.changes(Trial(ways.MANUAL), code.target(Request("train.py:step", sys.executable, ".")))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train.py:step", "train.py:batch"], "one callable at a time"),
        (["train.py:step", "--continue"], "leave out --continue"),
        (["train.py:step", "--write", "x.py", "--patch"], "give one of them"),
        (["train.py:step", "--write", "train.py"], "it is there already"),
        (["train.py:step", "--write", "x.txt"], "has to end in .py"),
        (["train.py:step", "--nproc", "2"], "without --nproc"),
        ([], "skill tune captures a callable: name it as FILE:FUNCTION"),
    ],
)
def test_misuse_is_said_before_anything_runs(
    arguments: list[str], said: str, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = program.read_text()
    assert cli.main(["tune", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert program.read_text() == before


def test_a_report_has_the_choice_and_its_code(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuning(timed(ways.MANUAL, 40.0))
    monkeypatch.setattr(trials, "tuned", lambda *_: found)
    report = program.with_name("ways.html")
    assert cli.main(["tune", "train.py:step", "--html", str(report)]) == 0
    assert "2.55 times as fast as eager" in report.read_text()
    assert "class Graphed" in report.read_text()
    assert cli.main(["tune", "train.py:step", "--html", str(report)]) == 2  # it is there


@pytest.mark.parametrize("option", ["--write", "--apply"])
def test_nothing_is_written_but_what_was_asked(option: str, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuning(timed(ways.MANUAL, 40.0))
    monkeypatch.setattr(trials, "tuned", lambda *_: found)
    assert cli.main(["tune", "train.py:step"]) == cli.main(["tune", "train.py:step", "--patch", "--json"]) == 0
    assert (program.read_text(), [path.name for path in program.parent.iterdir()]) == (SOURCE, ["train.py"])
    assert cli.main(["tune", "train.py:step", option, *(["new.py"] if option == "--write" else [])]) == 0
    new = {"--write": ["new.py", "train.py"], "--apply": ["graphed.py", "train.py"]}[option]
    assert sorted(path.name for path in program.parent.iterdir()) == new
    assert ("@Graphed" in program.read_text()) == (option == "--apply")
