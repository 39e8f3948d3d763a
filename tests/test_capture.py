"""`skill check --run`: what a guest reports becomes an examination, joined with the static check, in every form; misuse."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.capture import hazard_of, host, interpreter, options, output, session
from cudagraph_skill.capture.host import Ended
from cudagraph_skill.capture.request import Request, eager_command, to_guest
from cudagraph_skill.capture.session import Guests, Listener
from cudagraph_skill.check.hazards import table
from cudagraph_skill.check.input.source import lines_of
from cudagraph_skill.check.output import FORMS, Reader
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.capture.result import CaptureResult

    Skill = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).resolve().parent.parent
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")

TRAIN = """\
import torch

class Trainer:
    def __init__(self):
        self.t = 0

    def step(self, x):
        self.t += 1
        y = x * self.t
        scale = x.max().item()
        picked = y[y > 0]
        return picked.sum() / scale
"""
STEPS = Steps(
    read=lambda ref: f"skill read {ref}",
    turn=str,
    ask=lambda question: f"skill search {shlex.quote(question)}",
    explain=lambda name: f"skill explain {name}",
    check=lambda target: f"skill check {target}",
)
READER = Reader(STEPS, lines_of)
REQUEST = Request("train.py:Trainer.step", "/usr/bin/python3", ".")
DONE = {"how": "done", "detail": "", "stack": [], "left_behind": 0}
RUN_STEPS = [
    {"name": "eager", "outcome": "ok", "said": "11 calls, a second copy equal to the bit", "seconds": 0.02},
    {"name": "same inputs", "outcome": "differs", "said": "replay on the inputs of the capture", "seconds": 0.5},
]
STOPPED = "AcceleratorError: CUDA error: operation not permitted when stream is capturing"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder with nothing but a project's `train.py`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)


def _cause(line: int, kind: str = "fails", path: str = "train.py", **more: Any) -> dict[str, Any]:
    given = {"kind": kind, "category": "capture", "path": str(Path(path).resolve()), "line": line, "function": "step", "op": ""}
    return {**given, "error": "", "said": "", "via": [], "first": False, **more}


def _result(verdict: str, said: str = "", *causes: dict[str, Any], **more: Any) -> dict[str, Any]:
    target = {"path": str(Path("train.py").resolve()), "line": 7, "name": "Trainer.step"}
    machine = {"gpu": "NVIDIA H200", "driver": "570.1", "torch": "2.11.0", "cuda": "13.0", "python": "3.12.3"}
    plain = {"verdict": verdict, "said": said, "target": target, "causes": list(causes), "graph": None, "rounds": None}
    return {**plain, "machine": machine, "notes": [], **more}


def _failed() -> dict[str, Any]:
    return _result(
        "capture_error",
        f"fails at capture: {STOPPED}",
        _cause(11, op="aten.index.Tensor", said="fails at capture", error=STOPPED),
        _cause(10, op="aten._local_scalar_dense.default", error=STOPPED, first=True, via=["train.py:20 in run"]),
    )  # fmt: skip


def _wrong(**more: Any) -> dict[str, Any]:
    cause = _cause(
        9, "wrong", category="python-number", op="aten.mul.Tensor", said="passes 4 to mul for ever: eager has 9 by now"
    )
    rounds = {
        "replayed": 7,
        "wrong": [1, 2],
        "worst": 0.13,
        "tolerance": 1e-5,
        "path": "result",
        "changing": {},
        "moved": [],
        "moves": 0.0,
        "agreement": "wrong",
    }
    graph = {"nodes": {"kernel": 12, "memcpy": 1}, "host_copies": 0}
    return _result(
        "silent_wrong", "captures, but from replay 2 of 7 on it is not eager's", cause, rounds=rounds, graph=graph, **more
    )


def _examined(result: dict[str, Any] | None, request: Request = REQUEST, **more: Any) -> CaptureResult:
    return session.joined_result(request, result, more.get("steps", RUN_STEPS), more.get("ended", DONE), more.get("output", ""))


def _places(found: list[Any]) -> list[tuple[str, int, str, bool]]:
    return [(each.path, each.line, each.id, each.observed) for each in found]


# Results with the static check ----------------------------------------------------------------------------------------


def test_the_line_that_stopped_the_capture_comes_first_in_the_words_of_the_static_check() -> None:
    found = _examined(_failed())
    assert _places(found.findings)[:2] == [("train.py", 10, "CG201", True), ("train.py", 11, "CG210", True)]
    first = found.findings[0]
    assert first.message.startswith("`x.max().item()`")
    assert first.column == 17
    assert first.via == ("train.py:20 in run",)
    assert all(each.id == "CG101" for each in found.unconfirmed)


def test_static_errors_on_other_lines_follow_unobserved() -> None:
    result = _failed()
    result["causes"] = result["causes"][1:]
    assert _places(_examined(result).findings) == [("train.py", 10, "CG201", True), ("train.py", 11, "CG210", False)]


def test_a_wrong_replay_names_the_first_divergent_line_and_then_what_the_source_suggests() -> None:
    found = _examined(_wrong())
    assert _places(found.findings)[0] == ("train.py", 9, "CG101", True)
    assert ("train.py", 10, "CG201", False) in _places(found.findings)
    assert found.unconfirmed == []
    assert len({(each.line, each.id) for each in found.findings}) == len(found.findings)


def test_what_only_the_run_saw_has_the_line_as_subject_and_the_error(tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("def f(x):\n    return weird(x)\n")
    cause = _cause(2, path="lib.py", op="aten.nonzero.default", said="fails at capture", error=STOPPED)
    (found, *_) = _examined(_result("capture_error", "", cause)).findings
    assert (found.path, found.line, found.column, found.id) == ("lib.py", 2, 5, "CG211")
    assert found.message == f"`return weird(x)` fails at capture (in nonzero; {STOPPED})"


def test_a_spot_without_a_line_is_put_at_the_captured_function() -> None:
    cause = _cause(0, "wrong", path="train.py", category="argument-number", said="call 4: argument 1 is 0.5") | {"path": ""}
    (found, *_) = _examined(_result("silent_wrong", "", cause)).findings
    assert (found.path, found.line, found.id, found.message) == ("train.py", 7, "CG103", "call 4: argument 1 is 0.5")


@pytest.mark.parametrize("verdict", ["safe", "error_in_eager"])
def test_what_the_run_did_not_confirm_is_no_finding(verdict: str) -> None:
    found = _examined(_result(verdict))
    assert found.findings == []
    assert {("train.py", 10, "CG201", False), ("train.py", 11, "CG210", False)} <= set(_places(found.unconfirmed))


def test_the_line_of_an_error_in_eager_is_in_the_sentence_as_the_user_knows_the_file() -> None:
    cause = _cause(9, "note", category="eager", error="ValueError: no")
    assert _examined(_result("error_in_eager", "call 1 raised ValueError: no", cause)).said.endswith(" at train.py:9")
    told = f"call 1 raised ValueError: no at {cause['path']}:9"
    assert _examined(_result("error_in_eager", told, cause)).said == "call 1 raised ValueError: no at train.py:9"


def test_notes_of_the_run_keep_their_line() -> None:
    found = _examined(_result("safe", "", _cause(9, "note", said="draws on the CPU")))
    assert found.notes == ["train.py:9: `y = x * self.t` draws on the CPU"]


def test_a_tracker_of_megatron_that_no_graph_can_hold_is_explained() -> None:
    cause = _cause(172, error="RuntimeError: CUDAGeneratorImpl::set_current_seed can be called during stream capture only if …")
    cause["path"] = "/env/megatron/core/tensor_parallel/random.py"
    found = _examined(_result("capture_error", "fails at capture", cause))
    assert any("use_cudagraphable_rng=True" in note for note in found.notes)
    assert not any("use_cudagraphable_rng" in note for note in _examined(_failed()).notes)


def test_paths_stay_as_written_else_relative_to_here(tmp_path: Path) -> None:
    absolute = str(tmp_path / "train.py")
    found = _examined(_failed(), REQUEST._replace(target=f"{absolute}:Trainer.step"))
    assert {each.path for each in found.findings} == {absolute}
    assert found.target.path == absolute
    other = _examined(_result("capture_error", "", _cause(3, path="/nowhere/lib.py")))
    assert other.findings[0].path == "/nowhere/lib.py"


def test_a_static_check_that_fails_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(session, "check_paths", broken)
    assert _places(_examined(_failed()).findings) == [("train.py", 10, "CG201", True), ("train.py", 11, "CG210", True)]


def test_a_function_in_a_function_is_found_by_the_static_check() -> None:
    Path("train.py").write_text("def make():\n    def step(x):\n        return x.item()\n    return step\n")
    target = {"path": str(Path("train.py").resolve()), "line": 2, "name": "make.<locals>.step"}
    found = _examined(_result("safe", target=target), REQUEST._replace(target="train.py"))
    assert _places(found.unconfirmed) == [("train.py", 3, "CG201", False)]


# The table ------------------------------------------------------------------------------------------------------------


def test_every_id_of_the_tables_is_a_hazard_as_serious_as_what_was_seen() -> None:
    known = table()
    fails = {id_ for *_, id_ in hazard_of.FAILS} | hazard_of.GENERAL
    assert {known[id_].severity for id_ in fails} == {"error"}
    wrong = {id_ for slug, id_ in hazard_of.CATEGORIES.items() if slug not in ("unknown", "rng-reset")}
    assert {known[id_].severity for id_ in wrong} == {"warning"}
    assert set(hazard_of.CATEGORIES.values()) <= set(known)


@pytest.mark.parametrize(
    ("operation", "error", "line", "id_"),
    [
        ("aten._local_scalar_dense.default", STOPPED, "", "CG201"),
        ("aten.is_nonzero.default", STOPPED, "", "CG202"),
        ("aten.equal.default", STOPPED, "", "CG215"),
        ("aten.nonzero.default", STOPPED, "", "CG211"),
        ("aten._unique2.default", STOPPED, "", "CG212"),
        ("aten.unique_dim.default", STOPPED, "", "CG212"),
        ("aten.bincount.default", STOPPED, "", "CG212"),
        ("aten.masked_select.default", STOPPED, "", "CG210"),
        ("aten.index.Tensor", STOPPED, "", "CG210"),
        ("aten.index_put_.default", "RuntimeError: Cannot copy between CPU and CUDA tensors", "", "CG222"),
        ("aten._to_copy.default", "RuntimeError: … unless the CPU tensor is pinned", "y = x.cpu()", "CG203"),
        ("aten._to_copy.default", "RuntimeError: … unless the CPU tensor is pinned", "y = table.to(x.device)", "CG221"),
        ("aten.copy_.default", "RuntimeError: … unless the CPU tensor is pinned", "self.host[0].copy_(x)", "CG221"),
        ("aten.copy_.default", "RuntimeError: … unless the CPU tensor is pinned", "host.copy_(x)", "CG224"),
        ("", "RuntimeError: … unless the CPU tensor is pinned", "torch.tensor([1.0], device=d)", "CG221"),
        ("", "RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode", "", "CG604"),
        ("", "RuntimeError: Attempting CUDA graph capture of step() but capturable is False", "", "CG235"),
        ("torch.cuda.synchronize", "", "torch.cuda.synchronize()", "CG208"),
        ("torch.cuda.query", "", "e.query()", "CG209"),
        ("torch.cuda.elapsed_time", "", "", "CG209"),
        ("", "AcceleratorError: CUDA error: capturing stream has unjoined work", "", "CG402"),
        ("", "CUDA error: dependency created on uncaptured work in another stream", "", "CG401"),
        ("", "CUDA error: operation would make the legacy stream depend on a capturing blocking stream", "", "CG401"),
        ("aten.linalg_inv_ex.default", STOPPED, "", "CG219"),
        ("aten._linalg_eigh.default", STOPPED, "", "CG220"),
        ("aten.one_hot.default", STOPPED, "", "CG214"),
        ("aten.repeat_interleave.Tensor", STOPPED, "", "CG213"),
        ("aten._cudnn_rnn.default", STOPPED, "", "CG610"),
        ("aten.addmm.default", STOPPED, "", "CG404"),
        ("", "RuntimeError: Cannot prepare for replay during capturing stage.", "", "CG406"),
        ("", "CUDA error: operation failed due to a previous error during capture", "", "CG233"),
        ("", "torch._dynamo.exc.Unsupported: compiling", "", "CG407"),
        ("", STOPPED, "", "CG208"),
        ("somelib.op.default", "ValueError: never seen", "", "CG208"),
    ],
)  # fmt: skip
def test_operation_and_error_lead_to_the_hazard(operation: str, error: str, line: str, id_: str) -> None:
    assert hazard_of.hazard_of({"kind": "fails", "category": "capture", "op": operation, "error": error}, line) == id_


def test_a_category_may_be_the_name_of_a_hazard_and_an_unknown_one_is_unexplained() -> None:
    assert hazard_of.hazard_of({"kind": "wrong", "category": "input-rebinding"}) == "CG304"
    assert hazard_of.hazard_of({"kind": "fails", "category": "CG706"}) == "CG706"
    assert hazard_of.hazard_of({"kind": "wrong", "category": "value"}) == hazard_of.UNEXPLAINED
    assert hazard_of.hazard_of({}) == hazard_of.UNEXPLAINED


# Ends without a result ------------------------------------------------------------------------------------------------

STACK = [["/usr/lib/python3.12/runpy.py", 1, "run"], ["train.py", 9, "step"], ["/x/site-packages/torch/a.py", 3, "mul"]]


@pytest.mark.parametrize(
    ("ended", "steps", "verdict", "says"),
    [
        (
            {"how": "deadline", "stack": STACK},
            [],
            "error_in_eager",
            "had not come back after 5 s; it was at train.py:9 in step; `--deadline`",
        ),
        ({"how": "deadline", "stack": STACK}, RUN_STEPS, "capture_error", r"\(done: eager\); it was at train.py:9"),
        ({"how": "signal", "detail": "SIGSEGV"}, RUN_STEPS, "capture_error", "died of SIGSEGV"),
        ({"how": "exit", "detail": "7"}, [], "error_in_eager", "exit code 7"),
        ({"how": "memory"}, RUN_STEPS, "lacking", "more than 2 GB of host memory"),
        ({"how": "done"}, RUN_STEPS, "lacking", "ended without a result"),
        ({}, [], "lacking", "no reason given"),
    ],
)
def test_a_run_that_was_ended_says_how_and_where(ended: dict[str, Any], steps: list[Any], verdict: str, says: str) -> None:
    found = _examined(None, REQUEST._replace(deadline=5, memory=2 << 30), ended=ended, steps=steps)
    assert found.verdict == verdict
    assert re.search(says, found.said)
    assert found.target.name == "Trainer.step"
    for form in FORMS:
        assert output.written([found], form, READER)


def test_an_end_after_the_result_is_a_note() -> None:
    found = _examined(_result("safe"), ended={"how": "signal", "detail": "SIGABRT", "left_behind": 2})
    assert found.verdict == "safe"
    assert found.notes == [
        "after the result the process ended by SIGABRT",
        "the code left 2 processes behind: they were ended",
    ]


# Forms ----------------------------------------------------------------------------------------------------------------


def test_full_is_the_verdict_the_findings_the_ladder_the_machine_and_a_command() -> None:
    text = output.written([_examined(_wrong(notes=["others hold 3 GiB"]), output="a\n" * 9 + "\x1b[2J\n")], "full", READER)
    lines = text.split("\n")
    assert lines[0] == "silently wrong: Trainer.step: captures, but from replay 2 of 7 on it is not eager's"
    assert lines[2].startswith("train.py:9:")
    assert " CG101 warning " in lines[2]
    assert lines[3] == "  9 |         y = x * self.t"
    assert "  eager        ok         0.02 s  11 calls, a second copy equal to the bit" in lines
    assert "  same inputs  differs    0.50 s  replay on the inputs of the capture" in lines
    assert "replays: 7, wrong in 1, 2; off by 0.13, allowed 1e-05" in lines
    assert "note: others hold 3 GiB" in lines
    assert "machine: NVIDIA H200, driver 570.1, torch 2.11.0, CUDA 13.0, Python 3.12.3" in lines
    assert lines[-7] == "output of your code, its last lines:"
    assert lines[-2] == "  | \N{REPLACEMENT CHARACTER}[2J"
    assert lines[-1] == "next: skill explain CG101"


def test_what_comes_from_the_source_alone_says_so() -> None:
    result = _failed()
    result["causes"] = result["causes"][1:]
    heads = output.written([_examined(result)], "concise", READER).split("\n")
    assert "read in the source, not reached by this run" not in heads[0]
    assert heads[1].endswith("(read in the source, not reached by this run)")


def test_safe_is_short_shows_no_output_and_goes_on_to_measuring() -> None:
    found = _examined(
        _result("safe", "captures, and 7 replays equal eager", rounds={"replayed": 7, "wrong": []}), output="noise"
    )
    text = output.written([found], "full", READER)
    assert text.startswith("safe: Trainer.step: captures, and 7 replays equal eager\n")
    assert "noise" not in text
    assert "replays:" not in text
    assert "unconfirmed: the source suggests " in text
    assert "train.py:10 CG201" in text
    assert text.endswith(f"next: skill read {output.MEASURE}")


@pytest.mark.parametrize("ref", [output.MEASURE, output.BISECT])
def test_the_sections_that_are_named_stand(ref: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["read", ref]) == 0
    assert "eager" in capsys.readouterr()[0]


def test_a_wrong_replay_without_a_cause_claims_none() -> None:
    cause = _cause(12, "wrong", category="value", said="is the first operation whose result is not eager's (div)")
    (first, *_), found = _examined(_result("silent_wrong", "", cause)).findings, _examined(_result("silent_wrong", "", cause))
    assert first.id == hazard_of.UNEXPLAINED
    text = output.written([found], "full", READER)
    assert f"{hazard_of.UNEXPLAINED} warning `return picked.sum() / scale` is the first operation" in text
    assert table()[hazard_of.UNEXPLAINED].why not in text
    assert text.endswith(f"next: skill read {output.BISECT}")
    assert json.loads(output.written([found], "json", READER))["findings"][0]["severity"] == "warning"


def test_json_has_the_findings_of_the_static_check_and_whether_they_were_seen() -> None:
    data = json.loads(output.written([_examined(_failed())], "json", READER))
    assert list(data) == [
        "verdict", "summary", "target", "findings", "unconfirmed", "ladder", "graph", "rounds",
            "machine", "notes", "signatures", "ranks", "next",
    ]  # fmt: skip
    assert data["target"] == {"path": "train.py", "line": 7, "name": "Trainer.step"}
    first = data["findings"][0]
    assert (first["id"], first["observed"], first["severity"]) == ("CG201", True, "error")
    assert {"path", "line", "column", "name", "message", "fix", "via"} <= set(first)
    assert data["ladder"] == RUN_STEPS
    assert data["next"] == "skill explain CG201"
    several = json.loads(output.written([_examined(_failed()), _examined(_result("safe"))], "json", READER))
    assert [each["verdict"] for each in several["examinations"]] == ["capture_error", "safe"]


def test_github_and_sarif_carry_the_findings() -> None:
    found = [_examined(_failed()), _examined(_result("error_in_eager", "raised"))]
    annotations = output.written(found, "github", READER).split("\n")
    assert annotations[0].startswith("::error file=train.py,line=10,col=17,title=CG201 device-value-read::")
    (run,) = json.loads(output.written(found, "sarif", READER))["runs"]
    assert [each["ruleId"] for each in run["results"]][:2] == ["CG201", "CG210"]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert any("raised" in each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"])


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["safe"], 0),
        (["capture_error"], 1),
        (["silent_wrong"], 1),
        (["error_in_eager"], 2),
        (["misuse"], 2),
        (["lacking"], 3),
        (["safe", "silent_wrong", "safe"], 1),
        (["safe", "lacking", "capture_error"], 3),
        (["not_repeatable"], 4),
        (["safe", "not_repeatable", "silent_wrong"], 1),
        ([], 2),
    ],
)
def test_exit_codes(verdicts: list[str], code: int) -> None:
    assert output.exit_code([_examined(_result(each)) for each in verdicts]) == code


def test_an_error_in_eager_ends_with_the_command_that_shows_it() -> None:
    found = _examined(_result("error_in_eager", "raised"))
    assert output.written([found], "full", READER).endswith("next: /usr/bin/python3 train.py")
    Path("net.py").write_text("def make(device): pass\ndef step(x): pass\ndef data(): pass\n")
    made = 'from net import make; made = make("cuda"); made["fn"](*made["inputs"]())'
    for request, code in (
        (REQUEST._replace(target="net.py"), ["-c", made]),
        (REQUEST._replace(target="net.py:step", inputs="data"), ["-c", "from net import step, data; step(*data())"]),
        (REQUEST._replace(target="net.py:step"), ["net.py"]),
        (REQUEST._replace(target="pkg.mod:step"), ["-c", "import pkg.mod"]),
        (REQUEST._replace(program=("-m", "net", "--lr", "1"), flags=("-u",)), ["-u", "-m", "net", "--lr", "1"]),
    ):
        assert eager_command(request) == shlex.join(["/usr/bin/python3", *code])


# Requests -------------------------------------------------------------------------------------------------------------


def test_the_guest_is_told_files_and_modules_apart() -> None:
    wire = to_guest(REQUEST._replace(inputs="data", shapes=("4",), warmup=5))
    assert (wire["file"], wire["module"], wire["name"]) == (str(Path("train.py").resolve()), "", "Trainer.step")
    assert (wire["inputs"], wire["shapes"], wire["warmup"], wire["shown"]) == ("data", ["4"], 5, "train.py")
    wire = to_guest(REQUEST._replace(target="pkg.mod:Net.step"))
    assert (wire["file"], wire["module"], wire["name"]) == ("", "pkg.mod", "Net.step")
    wire = to_guest(REQUEST._replace(target="step", program=("train.py",), go_on=True, skip=2))
    assert (wire["target"], wire["go_on"], wire["skip"]) == ("train.py:step", True, 2)
    for target, program, told in (
        ("Net.step", ("-m", "pkg.train", "--x"), "pkg.train:Net.step"),
        ("lib.py:step", ("train.py",), "lib.py:step"),
        ("pkg.mod:step", ("-m", "pkg.train"), "pkg.mod:step"),
    ):
        assert to_guest(REQUEST._replace(target=target, program=program))["target"] == told


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("python train.py --lr 1", ("python", (), ("train.py", "--lr", "1"))),
        ("/usr/bin/python3.12 -u -X dev train.py", ("/usr/bin/python3.12", ("-u", "-X", "dev"), ("train.py",))),
        ("python -m pkg.train -x", ("python", (), ("-m", "pkg.train", "-x"))),
        ("python -O -mpkg.train", ("python", ("-O",), ("-m", "pkg.train"))),
        ("./train.py a", ("", (), ("./train.py", "a"))),
        ("train.py -m x", ("", (), ("train.py", "-m", "x"))),
    ],
)
def test_a_command_is_taken_apart(line: str, command: tuple[str, tuple[str, ...], tuple[str, ...]]) -> None:
    assert options.parse(line.split()) == (*command, None)


def test_the_interpreter_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "")
    if find_spec("torch"):
        assert interpreter.environment_python() == sys.executable
    else:
        with pytest.raises(SkillError, match="--python"):
            interpreter.environment_python()
    for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        python = tmp_path / variable / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch(0o755)
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert interpreter.environment_python() == str(python)


class _Guest:
    """Answers as a guest would, and counts how many were started and closed."""

    started: list[tuple[str, str]]
    closed: list[tuple[str, str]]
    answers: list[Ended | SkillError]

    def __init__(self, python: str, folder: str, *, cancelled: Any) -> None:
        assert not cancelled()
        self.key = (python, folder)
        self.started.append(self.key)

    def ask(self, request: dict[str, Any], deadline: float, memory: int, on_event: Any, cancelled: Any) -> Ended:
        assert (request["name"], deadline, memory, cancelled()) == ("Trainer.step", 120, 0, False)
        on_event({"event": "progress", "said": "capturing"})
        on_event({"event": "step", "name": "eager"})
        answer = self.answers.pop(0)
        if isinstance(answer, SkillError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed.append(self.key)


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> type[_Guest]:
    _Guest.started, _Guest.closed, _Guest.answers = [], [], []
    monkeypatch.setattr(host, "Guest", _Guest)
    return _Guest


def test_one_guest_answers_all_requests_of_one_folder(guest: type[_Guest]) -> None:
    guest.answers = [Ended(_failed(), RUN_STEPS, DONE, "out"), *(Ended(_result("safe"), [], DONE, "") for _ in range(2))]
    said: list[str] = []
    with Guests() as guests:
        found = list(session.examine([REQUEST, REQUEST, REQUEST._replace(folder="/")], guests, Listener(said.append)))
        assert [each.verdict for each in found] == ["capture_error", "safe", "safe"]
        assert guest.started == [("/usr/bin/python3", "."), ("/usr/bin/python3", "/")]
    assert guest.closed == guest.started
    assert said[:4] == ["importing torch in /usr/bin/python3", "importing and capturing train.py:Trainer.step", "capturing", ""]


def test_a_warm_guest_that_died_is_replaced_once_and_a_fresh_one_is_not(guest: type[_Guest]) -> None:
    dead = SkillError("python ended", 3)
    guest.answers = [Ended(_result("safe"), [], DONE, ""), dead, Ended(_result("safe"), [], DONE, ""), dead, dead]
    with Guests() as guests:
        for _ in range(2):
            assert [each.verdict for each in session.examine([REQUEST], guests, Listener(str))] == ["safe"]
        with pytest.raises(SkillError, match="python ended"):
            list(session.examine([REQUEST], guests, Listener(str)))
    assert len(guest.started) == len(guest.closed) == 3


def test_nothing_comes_after_a_cancelled_request(guest: type[_Guest]) -> None:
    guest.answers = [Ended(None, [], {"how": "cancelled"}, "")]
    with Guests() as guests:
        assert list(session.examine([REQUEST, REQUEST], guests, Listener(str))) == []


# The command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def skill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Skill:
    """Run `skill check`."""
    monkeypatch.setattr(sys, "argv", ["skill"])

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(["check", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--run", "name it as FILE:FUNCTION, or give a command after `--`"),
        ("--run -", "standard input is none"),
        ("--run .", "a run captures one callable: name it as FILE:FUNCTION"),
        ("--run nowhere.py:step", "nowhere.py:step: there is no such file"),
        ("--run book.ipynb:step", "save the notebook as one"),
        ("--run train.py:step --fix", "--fix is for the check of the source"),
        ("--run train.py:step --explain-finding", "--explain-finding is for the check of the source"),
        ("--run train.py:step --select CG2", "--select is for the check of the source"),
        ("--run train.py:step --inputs a --shape 4", "give one of them"),
        ("--run train.py:step --target step", "--target is for a program that runs: add its command"),
        ("--run train.py:step --continue", "--continue is for a program that runs"),
        ("--run train.py train.py --function step", "--function is for one file"),
        ("--run train.py:step --deadline 0", "must be above 0"),
        ("--run train.py:step --deadline soon", "invalid number value"),
        ("--run train.py:step --warmup -1", "must be 0 or more"),
        ("--run -- python train.py", "add --target FUNCTION"),
        ("--run --target step --", "after `--` stands no command"),
        ("--run train.py:step -- python train.py", "`train.py:step` stands beside a command"),
        ("--run --target step --shape 4 -- python train.py", "the program passes its own"),
        ("--run --target step --python x -- python train.py", "leave one of them out"),
        ("--run --target step -- /no/torchrun train.py", "/no/torchrun: there is no such command"),
        ("--run --target step -- accelerate launch train.py", "accelerate starts several processes"),
        ("--run --target step -- python -m torch.distributed.launch train.py", "give the `torchrun` command"),
        ("--run --target step -- python -m torch.distributed.run --standalone", "torchrun is given no program"),
        ("--run --target step -- python -m torch.distributed.run --no-python train.py", "--no-python lets torchrun start"),
        (
            "--run --nproc 2 --target step -- python -m torch.distributed.run --nproc-per-node 4 train.py",
            "leave one of them out",
        ),
        ("--run --nproc 0 --target step -- python train.py", "must be 1 or more"),
        ("--run --nproc two --target step -- python train.py", "invalid whole number value"),
        ("--run --nproc 2 train.py:step", "--nproc is for a program that runs"),
        ("--nproc 2 train.py:step", "--nproc is for a run on the GPU: add --run"),
        ("--run --target step -- python -c pass", "has to name a script or a module"),
        ("--run --target step -- python -m", "after -m stands no module"),
        ("--run --target step -- python", "has to name a script"),
        ("--run --target step -- python gone.py", "gone.py: there is no such script"),
        ("--run --target gone.py:step -- python train.py", "gone.py:step: there is no such file"),
        ("--run --target step -- make train", "make is no Python command"),
        ("train.py:step --inputs data", "--inputs is for a run on the GPU: add --run"),
        ("train.py:step --continue", "--continue is for a run on the GPU"),
    ],
)
def test_misuse_is_one_sentence_and_exit_2(line: str, says: str, skill: Skill) -> None:
    Path("book.ipynb").write_text("{}")
    code, out, err = skill(*line.split())
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_the_options_of_the_program_are_not_ours(skill: Skill) -> None:
    Path("train.py").touch()
    code, out, err = skill("--run", "--target", "step", "--shape", "4", "--", "python", "train.py", "--json", "--run")
    assert (code, out) == (2, "")
    assert "the program passes its own" in err
    assert json.loads(skill("--run", "--json", "--", "python", "train.py")[1])["error"].endswith("as the program names it")


def test_a_run_prints_each_examination_and_its_exit_code(skill: Skill, guest: type[_Guest]) -> None:
    guest.answers = [Ended(_failed(), RUN_STEPS, DONE, "out\n"), Ended(_result("safe", "captures"), [], DONE, "")]
    code, out, err = skill("--run", "train.py:Trainer.step", "train.py:Trainer.step", "--shape", "4")
    assert (code, err) == (1, "")
    assert out.startswith("capture error: Trainer.step: fails at capture")
    assert "\n\nsafe: Trainer.step: captures\n" in out
    guest.answers = [Ended(_wrong(), RUN_STEPS, DONE, "")]
    code, out, _ = skill("--run", "train.py", "--function", "Trainer.step", "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "silent_wrong")
    assert len(guest.closed) == 2


def test_misuse_that_the_guest_sees_is_misuse_like_any_other(skill: Skill, guest: type[_Guest]) -> None:
    guest.answers = [Ended(_result("misuse", "train.py has no stop; it has: Trainer"), [], DONE, "")]
    code, out, err = skill("--run", "train.py:Trainer.step")
    assert (code, out, err) == (2, "", "train.py has no stop; it has: Trainer\n")


def test_only_what_lasts_is_told(skill: Skill, guest: type[_Guest], monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(guest):  # type: ignore[misc, valid-type]
        def ask(self, *arguments: Any) -> Ended:
            time.sleep(1.3)
            return super().ask(*arguments)  # type: ignore[no-any-return]

    monkeypatch.setattr(host, "Guest", Slow)
    guest.answers = [Ended(_result("safe"), [], DONE, "")]
    assert skill("--run", "train.py:Trainer.step")[2] == "importing and capturing train.py:Trainer.step …\n"


# With a real guest ----------------------------------------------------------------------------------------------------


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "cudagraph_skill", "check", "--run", "--python", sys.executable, *arguments]


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}", "CUDA_VISIBLE_DEVICES": "", **more}


@needs_torch
def test_a_machine_without_a_gpu_says_so_in_one_sentence() -> None:
    done = subprocess.run(
        _command("train.py:Trainer.step", "--json"), env=_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert re.search("GPU|CUDA", json.loads(done.stdout)["error"])
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@needs_torch
def test_code_that_hangs_is_killed_and_its_line_is_named() -> None:
    Path("hang.py").write_text("import time\nprint('loading')\ntime.sleep(1000)\n")
    command = _command("hang.py:step", "--deadline", "2")
    done = subprocess.run(
        command, env=_environment(CUDAGRAPH_SKILL_NO_GPU_NEEDED="1"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "had not come back after 2 s" in done.stdout
    assert "it was at hang.py:3" in done.stdout
    assert "  | loading" in done.stdout


@needs_torch
def test_ctrl_c_is_exit_130_and_nothing_stays(tmp_path: Path) -> None:
    Path("hang.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(1000)\n")
    started = subprocess.Popen(_command("hang.py:step"), env=_environment(CUDAGRAPH_SKILL_NO_GPU_NEEDED="1"))
    note, end = tmp_path / "pid", time.monotonic() + 60
    while not (note.exists() and note.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    assert started.wait(15) == 130
    assert not Path("/proc", note.read_text()).exists()


def test_what_cannot_be_run_has_a_verdict_in_json(capsys: pytest.CaptureFixture[str], guest: type[_Guest]) -> None:
    guest.answers = [Ended(_result("misuse", "the file has no such name"), [], DONE, ""), SkillError("no torch", 3)]
    asked = [
        (["train.py:Trainer.step", "--python", sys.executable], "misuse"),
        ([], "misuse"),
        ([".", "--python", sys.executable], "misuse"),
        (["train.py:Trainer.step", "--python", sys.executable], "lacking"),
    ]
    for words, verdict in asked:
        assert cli.main(["check", "--run", "--json", *words]) == (3 if verdict == "lacking" else 2)
        report = json.loads(capsys.readouterr().out)
        assert report["verdict"] == verdict
        assert report["error"]


@pytest.mark.parametrize(
    "forged",
    [
        {"verdict": 5},
        {"verdict": "safe", "said": "", "notes": "none"},
        {"verdict": "safe", "said": "", "rounds": {"wrong": 1}},
        {"verdict": "silent_wrong", "said": "", "causes": [{"kind": "wrong", "line": "ten"}]},
        {"verdict": "safe", "said": "", "target": {"path": "a\0b", "line": 1, "name": "f"}},
    ],
)
def test_a_result_that_the_guest_did_not_write_is_told(forged: dict[str, Any], guest: type[_Guest]) -> None:
    guest.answers = [Ended(forged, [], DONE, "")]
    with Guests() as guests:
        (found,) = session.examine([REQUEST], guests, Listener(lambda _: None))
    assert found.verdict == "lacking"
    assert "cannot be read" in found.said
    assert output.written([found], "full", READER)
