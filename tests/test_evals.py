"""Tasks for agents: the programs run, graders accept right and refuse wrong submissions, and the runner can be interrupted."""

from __future__ import annotations

import ast
import itertools
import json
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agent
import grading
import pytest
import submitted
import suite
from cudagraph_skill.setup import folder as own
from submitted import write

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "evals" / "run.py"
TASKS = [suite.task(name) for name in suite.names()]
PROGRAMS = [task for task in TASKS if task.hands_in == suite.PROGRAM]
QUESTIONS = [task for task in TASKS if task.hands_in == suite.ANSWER]
_STEPS = {"early_stop": 26, "decode": 2}  # until the plateau schedule has lowered the rate; prompts of 24 tokens


# The tasks ------------------------------------------------------------------------------------------------------------


def test_there_are_tasks_of_both_kinds() -> None:
    assert (len(PROGRAMS), len(QUESTIONS)) == (10, 4)


def test_the_file_of_the_agent_skills_guide_has_these_tasks() -> None:
    kept = json.loads((ROOT / "evals" / "evals.json").read_text(encoding="utf-8"))
    assert kept == suite.convention(), "write it again: python evals/run.py json > evals/evals.json"
    assert all((ROOT / name).is_file() for case in kept["evals"] for name in case["files"])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_an_agent_is_told_how_to_hand_in_and_not_the_trap(task: suite.Task, tmp_path: Path) -> None:
    suite.lay_out(task, tmp_path / "work")
    names = {path.name for path in (tmp_path / "work").iterdir()}
    assert names == {path.name for path in task.given}
    assert "task.md" not in names
    told = suite.prompt(task, tmp_path / "work", pack=False)
    assert task.hands_in in told
    assert str(tmp_path / "work") in told
    assert "skill" not in told
    assert len(task.trap) > 100
    assert task.trap not in told
    assert str(suite.PACK) in suite.prompt(task, tmp_path / "work", pack=True)


@pytest.mark.parametrize("task", PROGRAMS, ids=lambda task: task.name)
def test_the_naive_submission_differs_from_the_right_one_in_its_marked_lines(task: suite.Task) -> None:
    right, wrong = (files[suite.PROGRAM].splitlines() for files in (suite.right(task), suite.wrong(task)))
    ast.parse("\n".join(wrong))
    changed = [line for line, other in zip(right, wrong, strict=True) if line != other]
    assert changed == [line for line in right if "# wrong: " in line] != []
    assert 50 <= len((suite.TASKS / task.name / "program.py").read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.slow
@pytest.mark.parametrize("task", PROGRAMS, ids=lambda task: task.name)
def test_the_static_check_finds_nothing_that_breaks_a_reference_submission(task: suite.Task, tmp_path: Path) -> None:
    suite.lay_out(task, tmp_path / "work")
    step = "one" if task.name == "decode" else "whole"
    target = write(tmp_path / "work", suite.right(task)) / suite.PROGRAM
    command = [sys.executable, str(ROOT / "tools/check.py"), f"{target}:Graphed.{step}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "2 captured regions" in done.stdout
    assert "no errors, no warnings" in done.stdout


def test_what_is_installed_and_copied_has_nothing_of_the_tasks() -> None:
    assert not [name for name in own.own_files() if "evals" in name or name.endswith(suite.PROGRAM)]
    assert "evals" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.pytest")[0]


# Programs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _children() -> Iterator[None]:
    with submitted.children():
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_children")
@pytest.mark.parametrize("task", PROGRAMS, ids=lambda task: task.name)
def test_a_program_is_taken_as_its_own_submission_and_the_naive_one_refused(task: suite.Task, tmp_path: Path) -> None:
    steps = _STEPS.get(task.name, 6)
    program = submitted.Program(task, 11, steps)
    for way, known in (("eager", suite.eager), ("right", suite.right)):
        found = grading.parity(program.runs, program.results(known(task), tmp_path / way))
        assert found[:2] == (steps + 2, "")
        assert found.used < 0.3
    wrong = grading.parity(program.runs, program.results(suite.wrong(task), tmp_path / "wrong"))
    assert wrong.said
    assert wrong.used > 10


STALE = {
    "the same tensor each time": """
from program import Trainer
class Same(Trainer):
    kept = None
    def step(self, *batch):
        loss = super().step(*batch)
        self.kept = loss if self.kept is None else self.kept.copy_(loss)
        return self.kept
build = Same
""",
    "the first result again": """
from program import Trainer
class Cached(Trainer):
    kept = None
    def step(self, *batch):
        self.kept = self.kept or super().step(*batch).clone()
        return self.kept
build = Cached
""",
    "results of batches seen before": """
from program import Trainer, batches
class Known(Trainer):
    def __init__(self, device):
        super().__init__(device)
        self.known = [super(Known, self).step(*batch) for batch in batches(40, 0)]
    def step(self, *batch):
        return self.known.pop(0)
build = Known
""",
    "only the loss is right": """
from program import Trainer
class Idle(Trainer):
    def state(self):
        return {name: value.clone().zero_() for name, value in super().state().items()}
build = Idle
""",
}


@pytest.mark.slow
@pytest.mark.usefixtures("_children")
@pytest.mark.parametrize("how", STALE)
def test_stale_results_are_refused(how: str, tmp_path: Path) -> None:
    program = submitted.Program(suite.task("stale_capture"), 12, 4)
    assert grading.parity(program.runs, program.results({suite.PROGRAM: STALE[how]}, tmp_path / "work")).used > 100


@pytest.mark.slow
def test_a_program_is_graded_in_child_processes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    task = suite.task("stale_capture")
    few: dict[str, Any] = {"steps": 8, "rounds": 2, "calls": 2}
    (tmp_path / "program.py").write_text("raise SystemExit('what an agent changed in a given file is not used')\n")
    write(tmp_path, suite.eager(task))
    drawn: dict[str, grading.Expected] = {}
    row = grading.grade(task, tmp_path, "cpu", drawn, **few)
    assert (row["verdict"], row["said"], row["compared"], row["memory"]) == ("right", "", 12, None)
    assert (row["used"], row["seed"]) == (0, drawn[task.name].settings["seed"])
    assert 0.2 < row["ratio"] < 5  # about 1, on a machine that may do other things
    assert row["ratios"][0] <= row["ratio"] <= row["ratios"][1]
    write(tmp_path, {suite.PROGRAM: "def build(device):\n    raise ValueError('no graph today')\n"})
    again = grading.grade(task, tmp_path, "cpu", drawn, **few)
    assert (again["verdict"], again["passed"], again["seed"]) == ("error", False, row["seed"])
    assert "no graph today" in again["said"]
    (tmp_path / suite.PROGRAM).unlink()
    assert grading.grade(task, tmp_path, "cpu", **few)["verdict"] == "missing"


def test_a_child_that_is_late_is_ended_with_what_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    program = f"(sleep 5; touch {shlex.quote(str(mark))}) & echo begun; sleep 60"
    ended = grading.ended(["bash", "-c", program], tmp_path, 1)
    assert ended == (None, "begun\n")
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_children")
@pytest.mark.parametrize("task", PROGRAMS, ids=lambda task: task.name)
def test_each_program_runs_as_its_user_runs_it(
    task: suite.Task, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(suite.TASKS / task.name / "program.py")
    monkeypatch.setattr(sys, "argv", [program, "--steps", "2", "--device", "cpu"])
    runpy.run_path(program, run_name="__main__")
    shown = capsys.readouterr()
    assert shown.out
    assert shown.err == ""


# Answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", QUESTIONS, ids=lambda task: task.name)
def test_an_answer_is_graded_by_field(task: suite.Task, tmp_path: Path) -> None:
    right = grading.grade(task, write(tmp_path / "right", suite.right(task)))
    assert (right["verdict"], right["passed"], right["said"]) == ("right", True, "")
    assert grading.grade(task, write(tmp_path / "wrong", suite.wrong(task)))["verdict"] == "wrong"
    assert grading.grade(task, write(tmp_path / "empty", suite.eager(task)))["verdict"] == "wrong"
    assert grading.grade(task, tmp_path)["verdict"] == "missing"
    assert grading.grade(task, write(tmp_path / "broken", {suite.ANSWER: "{"}))["verdict"] == "error"
    known = json.loads(suite.right(task)[suite.ANSWER])
    for name in task.answers["accepted"]:
        given = write(tmp_path / name, {suite.ANSWER: json.dumps({**known, name: "something else"})})
        assert name in grading.grade(task, given)["said"]


def test_other_spellings_of_a_right_answer_are_taken(tmp_path: Path) -> None:
    known = json.loads(suite.right(suite.task("megatron"))[suite.ANSWER])
    for words in ("moe_preprocess,attn,moe_router", ["attn", "moe_router", "moe_preprocess"]):
        known["settings"]["--cuda-graph-scope"] = words
        folder = write(tmp_path, {suite.ANSWER: json.dumps(known)})
        assert grading.grade(suite.task("megatron"), folder)["passed"]
    known["settings"]["--cuda-graph-scope"] = "attn moe_router mlp"
    assert not grading.grade(suite.task("megatron"), write(tmp_path, {suite.ANSWER: json.dumps(known)}))["passed"]


def test_the_lines_that_the_answers_name_are_those_of_the_files() -> None:
    serve = (suite.TASKS / "bucket_memory" / "serve.py").read_text(encoding="utf-8").splitlines()
    train = (suite.TASKS / "capture_log" / "train.py").read_text(encoding="utf-8").splitlines()
    memory, log = (suite.task(name).answers["accepted"] for name in ("bucket_memory", "capture_log"))
    assert serve[memory["line"] - 1].strip() == "with torch.cuda.graph(graph):"
    assert "float(value)" in train[log["line"] - 1]
    assert "torch.tensor(self.margins" in train[log["next_line"] - 1]
    frames = (suite.TASKS / "capture_log" / "train.log").read_text(encoding="utf-8").splitlines()
    for line, code in itertools.pairwise(frames):
        if line.strip().startswith('File "train.py"'):
            assert train[int(line.split("line ")[1].split(",")[0]) - 1].strip() == code.strip()


def test_the_launch_script_has_the_mistakes_that_the_pack_names() -> None:
    script = suite.TASKS / "megatron" / "pretrain.sh"
    command = [sys.executable, str(ROOT / "tools/config.py"), str(script), "--for", "megatron-core==0.17.1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    for name in ("expandable-segments", "full-recompute", "option-not-in-release"):
        assert name in done.stdout


# The runner -----------------------------------------------------------------------------------------------------------

_AGENT = f"{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'evals' / 'reference.py'))}"
_ASKED = ["capture_log", "worth_it"]


def _run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *words], capture_output=True, text=True, check=False)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _started(folder: Path, how: str, *words: str) -> subprocess.CompletedProcess[str]:
    return _run("run", folder, *_ASKED, "--agent", f"{_AGENT} {how} {{folder}}", "--name", how, "--times", "2", *words)


@pytest.mark.slow
def test_runs_are_started_graded_and_shown(tmp_path: Path) -> None:
    assert _started(tmp_path, "right").returncode == 0
    assert _started(tmp_path, "wrong", "--pack", "without").returncode == 0
    runs = _rows(tmp_path / "runs.jsonl")
    assert [(row["agent"], row["pack"]) for row in runs] == [("right", True), ("right", False)] * 4 + [("wrong", False)] * 4
    assert all(row["submitted"] and row["exit"] == 0 and row["calls"] is None for row in runs)
    assert not list(tmp_path.rglob("SKILL.md"))  # the copy of the pack is taken away again
    assert _run("grade", tmp_path).returncode == 0
    grades = _rows(tmp_path / "grades.jsonl")
    assert "no grade" not in _run("table", tmp_path).stdout
    assert [row["passed"] for row in grades] == [True] * 8 + [False] * 4
    text = _run("table", tmp_path).stdout
    assert "| worth_it | yes | 2 of 2 | 2 of 2 |" in text
    assert "| all | no | 0 of 4 | 0 of 4 |" in text
    assert "- worth_it without the pack, 2: wrong: train: True" in text
    (tmp_path / "kept.json").write_text(_run("keep", tmp_path).stdout, encoding="utf-8")
    assert _run("lay", tmp_path / "kept.json", tmp_path / "laid").returncode == 0
    assert _run("table", tmp_path / "laid").stdout == text
    assert [path.read_text() for path in sorted((tmp_path / "laid").rglob("answer.json"))] == [
        path.read_text() for path in sorted(tmp_path.glob("*/*/*/work/answer.json"))
    ]
    assert "is there already" in _run("lay", tmp_path / "kept.json", tmp_path / "laid").stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "is no file of `keep` (JSONDecodeError"),
        ("[]", "is no file of `keep` (TypeError"),
        ('{"tasks": []}', "is no file of `keep` (KeyError: 'runs')"),
        ('{"runs": [{"task": "nosuch", "agent": "a", "pack": true, "number": 1, "handed_in": ""}], "grades": []}', "nosuch"),
        (
            '{"runs": [{"task": "gnn", "agent": "../../a", "pack": true, "number": 1, "handed_in": "x"}], "grades": []}',
            "outside",
        ),
    ],
)
def test_what_is_no_file_of_kept_runs_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "given.json").write_text(text, encoding="utf-8")
    done = _run("lay", tmp_path / "given.json", tmp_path / "new")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["given.json"]


@pytest.mark.slow
def test_a_runner_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    _started(tmp_path, "right", "--pack", "with")
    path = tmp_path / "runs.jsonl"
    whole = path.read_text(encoding="utf-8")
    assert (_started(tmp_path, "right", "--pack", "with").stdout, path.read_text(encoding="utf-8")) == ("", whole)
    kept = whole[: whole.rindex('{"task"') + 20]  # the last row, cut off
    path.write_text(kept, encoding="utf-8")
    (again,) = _started(tmp_path, "right", "--pack", "with").stdout.splitlines()
    assert (json.loads(again)["task"], json.loads(again)["number"]) == ("worth_it", 2)
    assert path.read_text(encoding="utf-8").startswith(kept + "\n")
    assert _run("grade", tmp_path).stdout.count("\n") == 4
    assert _run("grade", tmp_path).stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grade", "gone"], "gone has no runs.jsonl"),
        (["table", "gone"], "gone has no runs.jsonl"),
        (["keep", "gone"], "gone has no runs.jsonl"),
        (["run", "new", "--times", "0", "--agent", "true {prompt}"], "--times 0 starts no agent"),
    ],
)
def test_a_command_that_would_do_nothing_is_refused(words: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(RUN), *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_runs_without_a_grade_are_counted_under_the_table(tmp_path: Path) -> None:
    row = {"task": "worth_it", "digest": "0", "agent": "a", "pack": True, "number": 1}
    (tmp_path / "runs.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert _run("table", tmp_path).stdout.endswith("they have no grade: 1 runs.\n")


def test_kept_runs_are_of_these_tasks_and_can_be_laid_out(tmp_path: Path) -> None:
    kept = ROOT / "evals" / "runs.json"
    given, grades = (json.loads(kept.read_text(encoding="utf-8"))[name] for name in ("runs", "grades"))
    assert [row["task"] for row in given if row["digest"] != suite.task(row["task"]).digest] == []
    assert _run("lay", kept, tmp_path / "again").returncode == 0
    assert len([*(tmp_path / "again").rglob("solution.py"), *(tmp_path / "again").rglob("answer.json")]) == len(given)
    graded = [row for row in grades if row["pack"]]
    passed, right = sum(row["passed"] for row in graded), sum(row["verdict"] == "right" for row in graded)
    assert f"| all | yes | {passed} of {len(graded)} | {right} of {len(graded)} |" in _run("table", tmp_path / "again").stdout


def test_an_agent_sees_the_pack_only_if_it_is_to(tmp_path: Path) -> None:
    task = suite.task("worth_it")
    look = f"{shlex.quote(sys.executable)} -c 'import os, sys; print(os.path.exists(sys.argv[1]), sys.argv[2])'"
    for pack in (True, False):
        agent.start(task, tmp_path / str(pack), f"{look} {{folder}}/{suite.PACK}/tools/search.py {{prompt}}", pack, 1)
        transcript = (tmp_path / str(pack) / "transcript").read_text(encoding="utf-8")
        assert transcript.startswith(f"{pack} ")
        assert ("Read its SKILL.md first" in transcript) is pack
        assert task.text in transcript


def test_an_agent_is_kept_away_from_the_solutions(tmp_path: Path) -> None:
    for folder in (ROOT, ROOT / "build" / "runs"):
        done = _run("run", folder, "--agent", "true {prompt}")
        assert done.returncode == 1
        assert "name a folder outside" in done.stderr
    assert "would not know its task" in _run("run", tmp_path, "--agent", "true").stderr
    assert "no task is named nosuch" in _run("run", tmp_path, "nosuch", "--agent", "true {prompt}").stderr


_CLAUDE = [
    {"type": "assistant", "message": {"id": "a", "content": [{"type": "text"}], "usage": {"output_tokens": 1}}},
    {"type": "assistant", "message": {"id": "a", "content": [{"type": "tool_use"}], "usage": {"output_tokens": 1}}},
    {
        "type": "result",
        "num_turns": 4,
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 30},
    },
]
_CODEX = [
    {"type": "item.started", "item": {"type": "command_execution"}},
    {"type": "item.completed", "item": {"type": "command_execution"}},
    {"type": "item.completed", "item": {"type": "agent_message"}},
    {"type": "turn.completed", "usage": {"input_tokens": 50, "cached_input_tokens": 40, "output_tokens": 6}},
    {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 4}},
]
_GEMINI = {"stats": {"models": {"m": {"tokens": {"prompt": 9, "candidates": 2, "thoughts": 1}}}, "tools": {"totalCalls": 3}}}


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        ("\n".join(["a line that is no JSON", *map(json.dumps, _CLAUDE)]), (1, 105, 30, 0.25)),
        (json.dumps(_CLAUDE[-1]), (4, 105, 30, 0.25)),
        ("\n".join(map(json.dumps, _CLAUDE[:-1])), (1, 0, 1, None)),
        ("\n".join(map(json.dumps, _CODEX)), (1, 60, 10, None)),
        (json.dumps(_GEMINI, indent=1), (3, 9, 3, None)),
        ("nothing but text\n[1, 2]\n", (None, None, None, None)),
    ],
)
def test_calls_and_tokens_are_those_that_an_agent_prints(transcript: str, expected: tuple[Any, ...]) -> None:
    assert tuple(agent.usage(transcript).values()) == expected
