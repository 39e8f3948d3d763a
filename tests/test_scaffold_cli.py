"""`skill scaffold` and `skill recommend` as a person and as a script meet them."""

from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.capture import interpreter
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import output, receipt
from cudagraph_skill.scaffold.options import WORKFLOWS, Options
from cudagraph_skill.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    Skill = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).resolve().parent.parent
FOR = ("--for", "torch==2.11")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")


@pytest.fixture
def skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Skill:
    """Run `skill` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["skill"])
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(interpreter, "environment_python", lambda: sys.executable)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def _receipt(file: Path, verdict: str = "ok", **given: Any) -> receipt.Receipt:
    report = {"parity": {"steps": 50, "graph": 0.0}, "timing": {"eager": [300.0, 290.0, 310.0], "graph": [100.0, 99.0, 120.0]}}
    machine = {"gpu": "NVIDIA H200", "torch": "2.11.0", "date": "2026-11-22"}
    return receipt.Receipt(
        str(file), verdict, "as it should", given.pop("report", report), machine, given.pop("command", ""), "0" * 16, **given
    )


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace verification: record its arguments and return "ok", or what is put under "found"."""
    asked: dict[str, Any] = {}

    def verify(file: Path, **given: Any) -> receipt.Receipt:
        asked.update(given, file=file)
        if isinstance(asked.get("found"), SkillError):
            raise asked["found"]
        rest = {"cause": "", "fallback": "", "log": "", **asked.get("found", {})}
        return _receipt(file, command=given["command"], **rest)

    monkeypatch.setattr(receipt, "verify", verify)
    return asked


# Programs -------------------------------------------------------------------------------------------------------------


def test_the_program_alone_goes_to_stdout_and_the_next_command_to_stderr(skill: Skill) -> None:
    code, out, err = skill("scaffold", "--workflow", "manual", "--training", *FOR)
    assert code == 0
    assert "Written for torch 2.11." in (ast.get_docstring(ast.parse(out)) or "")
    assert err.splitlines()[0] == "workflow 7, manual, written for torch 2.11 (as `--for` says); replace what YOURS marks"
    assert err.splitlines()[-1] == "next: skill scaffold --workflow manual --training --for torch==2.11 --into step.py"


def test_the_next_commands_work_one_after_the_other(skill: Skill, verified: dict[str, Any]) -> None:
    _, out, _ = skill("recommend", "--training", "--no-compile")
    for _ in range(3):
        command = shlex.split(out.splitlines()[-1].removeprefix("next: skill "))
        code, out, err = skill(*command)
        assert code == 0
        out = out if out.startswith(("step.py", "verified")) else err
    assert verified["file"] == Path("step.py")
    assert out.splitlines()[-1].startswith("next: skill read ")


@pytest.mark.parametrize("arguments", [("7",), ("manual",), ("--workflow", "7"), ("--workflow", "torch.cuda.graph")])
def test_a_workflow_is_named_in_the_ways_that_people_do(arguments: tuple[str, ...], skill: Skill) -> None:
    assert skill("scaffold", *arguments, "--training", *FOR)[1] == skill("scaffold", "manual", "--training", *FOR)[1]


def test_versions_come_from_the_interpreter_and_from_for(skill: Skill, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"torch": "2.7.1"}\'\n')
    python.chmod(0o755)
    _, out, err = skill("scaffold", "7", "--training", "--python", str(python))
    assert "Written for torch 2.7." in out
    assert f"(as installed in {python})" in err
    step = shlex.split(err.splitlines()[-1].removeprefix("next: skill "))
    assert "written for torch 2.7 " in skill(*step)[1]
    _, out, _ = skill("scaffold", "7", "--training", "--for", "torch==2.6,megatron-core==0.17", "--python", "/nowhere")
    assert "Written for torch 2.6." in out


def test_without_a_workflow_all_are_listed(skill: Skill) -> None:
    code, out, err = skill("scaffold")
    assert (code, err) == (0, "")
    assert all(f"{workflow.number}  {name} " in out for name, workflow in WORKFLOWS.items())
    assert all(f"--{name} " in out for name in Options._fields[1:])
    assert out.splitlines()[-1] == "next: skill recommend"
    data = json.loads(skill("scaffold", "--json")[1])
    assert [workflow["name"] for workflow in data["workflows"]] == list(WORKFLOWS)
    assert set(data["options"]) == set(Options._fields[1:])


def test_into_writes_the_file_and_says_how_to_go_on(skill: Skill) -> None:
    code, out, err = skill("scaffold", "7", "--training", *FOR, "--into", "step.py")
    assert (code, err) == (0, "")
    assert out.startswith("step.py: workflow 7, manual")
    assert out.splitlines()[-1] == "next: skill scaffold --verify step.py"
    text = Path("step.py").read_text()
    assert text == skill("scaffold", "7", "--training", *FOR)[1]
    code, out, err = skill("scaffold", "7", "--training", "--amp", "bf16", *FOR, "--into", "step.py")
    assert (code, out, Path("step.py").read_text()) == (2, "", text)
    assert "--force" in err
    assert skill("scaffold", "7", "--training", "--amp", "bf16", *FOR, "--into", "step.py", "--force")[0] == 0
    assert "torch.bfloat16" in Path("step.py").read_text()


def test_a_module_and_its_checks_are_printed_or_written_together(skill: Skill, verified: dict[str, Any]) -> None:
    asked = ("scaffold", "7", "--training", "--module", *FOR)
    code, out, err = skill(*asked)
    assert code == 0
    assert out.startswith('# step.py\n"""')
    module, checks = out.removeprefix("# step.py\n").split("\n\n# check_step.py\n")
    assert err.splitlines()[-1].endswith("--for torch==2.11 --module --into step.py")
    data = json.loads(skill(*asked, "--json")[1])
    assert (data["program"], data["checks"]) == (f"{module}", checks)
    code, out, _ = skill(*asked, "--into", "step.py")
    assert (code, Path("step.py").read_text(), Path("check_step.py").read_text()) == (0, module, checks)
    assert out.startswith("step.py and check_step.py: workflow 7, manual")
    assert out.splitlines()[-1] == "next: skill scaffold --verify step.py"
    assert skill("scaffold", "--verify", "step.py")[0] == 0
    assert verified["file"] == Path("check_step.py")
    verified["found"] = {"verdict": "failed"}
    assert skill("scaffold", "--verify", "step.py")[1].splitlines()[-1] == "next: skill check step.py"
    verified["found"] = {}
    Path("step.py").unlink()
    code, _, err = skill(*asked, "--into", "step.py")
    assert (code, Path("step.py").exists()) == (2, False)
    assert "`--into check_step.py`: it is there already" in err
    assert skill(*asked, "--into", "step.py", "--force", "--verify")[0] == 0
    assert verified["command"].endswith("--for torch==2.11 --module")
    assert json.loads(Path("check_step.receipt.json").read_text())["file"] == "check_step.py"


@pytest.mark.parametrize("name", ["-dash.py", "a b.py", "e\x1b[31m\n'\\.py", "é\udcff.py"])
def test_the_next_command_names_any_file_as_a_shell_takes_it(name: str, skill: Skill, verified: dict[str, Any]) -> None:
    code, out, _ = skill("scaffold", "7", "--training", *FOR, f"--into={name}")
    step = out.splitlines()[-1].removeprefix("next: ")
    assert (code, out.count("\n")) == (0, 2)
    assert "\x1b" not in out
    words = subprocess.run(["/bin/bash", "-c", f"printf '%s\\0' {step}"], capture_output=True, check=True).stdout.split(b"\0")
    assert skill(*map(os.fsdecode, words[1:-1]))[0] == 0
    assert verified["file"] == Path(name)
    verified["found"] = {"verdict": "failed"}
    dot = "./" * name.startswith("-")
    assert skill("scaffold", f"--verify={name}")[1].splitlines()[-1] == f"next: skill check {quoted(dot + name)}"


def test_json_has_the_documented_keys(skill: Skill) -> None:
    code, out, err = skill("scaffold", "7", "--training", "--accumulate", *FOR, "--json")
    data = json.loads(out)
    assert (code, err) == (0, "")
    assert set(data) == {"workflow", "options", "versions", "program", "checks", "path", "notes", "next"}
    assert (data["workflow"], data["options"]) == ("manual", {"training": True, "accumulate": 4})
    assert data["versions"] == {"torch": "2.11"}
    ast.parse(data["program"])
    data = json.loads(skill("scaffold", "7", "--training", *FOR, "--json", "--into", "a.py")[1])
    assert (data["program"], data["path"]) == ("", "a.py")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["manul"], "nearest: `--workflow manual`"),
        (["--workflow", "9"], "there is no workflow 9"),
        (["megatron"], "mcore-per-layer` or `--workflow mcore-full-iteration`"),
        (["manual", "--ddp"], "nearest: `skill scaffold --workflow manual`"),
        (["3", "--training", "--fsdp"], "nearest: `skill scaffold --workflow manual --training --fsdp`"),
        (["manual", "--training", "--inference"], "not allowed with"),
        (["manual", "--amp", "fp8"], "choose from"),
        (["manual", "--training", "--accumulate", "1"], "plain step; nearest: `skill scaffold --workflow manual --training`"),
        (["manual", "--accumulate", "-1"], "it must be 0 or more"),
        (["manual", "--accumulate", "many"], "whole number"),
        (["manual", "--ddpp"], "did you mean --ddp?"),
        (["manual", "te"], "one argument too many"),
        (["manual", "--workflow", "7"], "leave one of them out"),
        (["--training"], "`skill recommend` names one"),
        (["--into", "step.py"], "--into is given, but no workflow"),
        (["--for", "torch==2.6"], "--for is given, but no workflow"),
        (["manual", "--training", "--for", "torch"], "such as torch==2.6"),
        (["manual", "--training", "--for", "torch==9.9"], "nearest: `--for torch=="),
        (["manual", "--training", "--for", ""], "such as torch==2.6"),
        (["manual", "--for", "torch==2.6;megatron-core==0.15"], "is not a release"),
        (["manual", "--for", "torch==2.6", "--for", "torch==2.9"], "asks for torch 2.6 and 2.9"),
        (["profile", "--module"], "nearest: `skill scaffold --workflow manual-over-compile --module`"),
        (["6", "--module"], "so it is one file; nearest: leave out `--module`"),
        (["manual", "--module", "--into", "a-b.py"], "a-b is no name of a module; for example `--into step.py`"),
        (["--module"], "--module is given, but no workflow"),
        (["--verify", "mine.py", "--module"], "leave out --module"),
        (["manual", "--force"], "name it with --into FILE"),
        (["manual", "--deadline", "3"], "add --verify"),
        (["manual", "--processes", "2"], "add --verify"),
        (["manual", "--verify"], "add --into FILE"),
        (["manual", "--verify", "step.py"], "--into step.py --verify"),
        (["--verify"], "add --into FILE"),
        (["--verify", "gone.py"], "gone.py: No such file"),
        (["--verify", "."], ".: that is a folder"),
        (["--verify", "mine.txt"], "ends in .py: rename it"),
        (["--verify", "mine.py", "--training"], "runs a program that is there, as it stands: leave out --training"),
        (["--verify", "mine.py", "--for", "torch==2.6"], "leave out --for"),
        (["--verify", "mine.py", "--into", "a.py"], "leave out --into"),
        (["--verify", "mine.py", "--force"], "leave out --force"),
        (["manual", "--training", "--into", "step.txt"], "for example `--into step.py`"),
        (["manual", "--training", "--into", "mine.py", "--force", "--verify"], "mine.receipt.json is no receipt"),
        (["--verify", "mine.py"], "it has no main(), parity(), rollback() and timing()"),
        (["manual", "--training", "--into", "torch.py"], "in place of the module torch"),
        (["manual", "--training", "--into", "gone/step.py"], "mkdir -p gone"),
        (["manual", "--training", "--into", ""], "a file is needed"),
    ],
)
def test_misuse_is_one_sentence_and_exit_2(arguments: list[str], says: str, skill: Skill) -> None:
    Path("mine.py").write_text("x = 1\n")
    Path("mine.txt").write_text("x = 1\n")
    Path("mine.receipt.json").write_text("of another program\n")
    code, out, err = skill("scaffold", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == ["mine.py", "mine.receipt.json", "mine.txt"]
    assert Path("mine.py").read_text() == "x = 1\n"
    code, out, _ = skill("scaffold", *arguments, "--json")
    assert code == 2
    assert says in json.loads(out)["error"]


def test_an_interpreter_that_is_not_there_is_exit_3(skill: Skill) -> None:
    code, out, err = skill("scaffold", "manual", "--training", "--python", "/nowhere/python")
    assert (code, out, err.count("\n")) == (3, "", 1)


def test_a_folder_that_may_not_be_written_is_one_sentence(skill: Skill, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o555)
    code, _, err = skill("scaffold", "manual", "--training", *FOR, "--into", "step.py")
    assert (code, err.count("\n")) == (2, 1)


# Verification ---------------------------------------------------------------------------------------------------------


def test_a_program_is_written_verified_and_its_receipt_kept(skill: Skill, verified: dict[str, Any]) -> None:
    code, out, err = skill("scaffold", "7", "--training", "--ddp", *FOR, "--into", "step.py", "--verify", "--deadline", "9")
    assert code == 0
    assert err.startswith("step.py: workflow 7, manual")
    assert out.startswith("verified: step.py: as it should\n")
    assert "timing    graph 100 us (p10 99, p90 120), 3.00x" in out
    assert "receipt: step.receipt.json" in out
    assert out.splitlines()[-1].startswith("next: skill read ")
    assert (verified["processes"], verified["deadline"], verified["python"]) == (2, 9.0, sys.executable)
    assert verified["command"] == "skill scaffold --workflow manual --training --ddp --for torch==2.11"
    kept = json.loads(Path("step.receipt.json").read_text())
    assert (kept["verdict"], kept["command"]) == ("ok", verified["command"])


def test_a_program_that_is_there_is_verified_as_it_says(skill: Skill, verified: dict[str, Any]) -> None:
    skill("scaffold", "7", "--training", "--fsdp", *FOR, "--into", "step.py")
    code, _, err = skill("scaffold", "--verify", "step.py")
    assert (code, err) == (0, "")
    assert (verified["file"], verified["processes"], verified["command"]) == (Path("step.py"), 2, "")
    skill("scaffold", "--verify", "step.py", "--processes", "4", "--python", "/some/python")
    assert (verified["processes"], verified["python"]) == (4, "/some/python")


def test_a_failure_is_exit_1_with_cause_fallback_and_the_next_command(skill: Skill, verified: dict[str, Any]) -> None:
    verified["found"] = {
        "verdict": "failed",
        "cause": "host-sync (high confidence): it waits.",
        "fallback": 'prepare("eager") runs without a graph',
        "log": "one\x1b[2J\nboom\n",
        "report": {"notes": ["a note"]},
    }
    code, out, _ = skill("scaffold", "7", "--training", *FOR, "--into", "step.py", "--verify")
    assert code == 1
    assert out.startswith("failed: step.py: ")
    assert all(line in out for line in ("note: a note", "cause: host-sync", "fallback: prepare", "  | boom"))
    assert "\x1b" not in out
    assert out.splitlines()[-1] == "next: skill explain host-sync"
    verified["found"] = {"verdict": "failed"}
    assert skill("scaffold", "--verify", "step.py")[1].splitlines()[-1] == "next: skill check step.py"


def test_a_receipt_as_json_has_the_documented_keys(skill: Skill, verified: dict[str, Any]) -> None:
    _, out, _ = skill("scaffold", "7", "--training", *FOR, "--into", "step.py", "--verify", "--json")
    data = json.loads(out)
    assert {*receipt.Receipt._fields, "receipt", "next", "workflow", "versions"} <= set(data)
    assert data["path"] == data["file"] == str(verified["file"]) == "step.py"


def test_what_was_shown_is_told_where_the_receipt_cannot_be_kept(skill: Skill, verified: dict[str, Any]) -> None:
    skill("scaffold", "7", "--training", *FOR, "--into", "step.py")
    Path("step.receipt.json").mkdir()  # which the real one would have said
    code, out, err = skill("scaffold", "--verify", "step.py")
    assert code == 0
    assert str(verified["file"]) in out
    assert "step.receipt.json is no receipt" in err


@pytest.mark.parametrize(
    ("sentence", "given", "again"),
    [
        ("there is no GPU here", [], ""),
        ("python3 has no torch: name another with `--python`", [], " --python PYTHON"),
        ("my.python has no torch: name another with `--python`", ["--python", "my.python"], " --python my.python"),
    ],
)
def test_what_the_machine_lacks_is_exit_3_and_the_file_stays(
    sentence: str, given: list[str], again: str, skill: Skill, verified: dict[str, Any]
) -> None:
    verified["found"] = SkillError(sentence, 3)
    code, out, err = skill("scaffold", "7", "--training", *FOR, "--into", "step.py", "--verify", *given)
    assert (code, out) == (3, "")
    assert err.splitlines()[-1] == f"{sentence}; step.py is written, next: skill scaffold --verify step.py{again}"
    assert Path("step.py").is_file()
    verified["found"] = {}
    assert skill("scaffold", "--verify", "step.py")[0] == 0


def test_what_is_stopped_says_that_the_file_is_written(skill: Skill, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(receipt, "verify", stop)
    code, out, err = skill("scaffold", "7", "--training", *FOR, "--into", "step.py", "--verify")
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "step.py is written and not verified, next: skill scaffold --verify step.py"


@needs_torch
def test_a_machine_without_a_gpu_is_one_sentence_and_exit_3(skill: Skill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PATH", os.defpath)
    skill("scaffold", "7", "--training", *FOR, "--into", "step.py")
    code, out, err = skill("scaffold", "--verify", "step.py")
    assert (code, out) == (3, "")
    assert "GPU" in err or "CUDA" in err


def test_a_timing_of_an_odd_form_is_left_out() -> None:
    made = _receipt(Path("a.py"), report={"timing": {"eager": "fast", "graph": [0, 0, 0]}}, cause="", fallback="", log="")
    assert "timing    graph 0 us" in output.text(made, "none")


# Recommendations ------------------------------------------------------------------------------------------------------


def test_a_recommendation_ends_in_a_command_that_works(skill: Skill) -> None:
    code, out, err = skill("recommend", "--training", "--no-compile", "--amp", "bf16")
    assert (code, err) == (0, "")
    assert out.startswith("workflow 7, manual: ")
    assert out.splitlines()[-1] == "next: skill scaffold --workflow manual --training --amp bf16"
    data = json.loads(skill("recommend", "--training", "--no-compile", "--amp", "bf16", "--json")[1])
    assert data["next"] == out.splitlines()[-1].removeprefix("next: ")
    assert set(data) == {"workflow", "number", "why", "notes", "instead", "questions", "next"}


def test_without_answers_it_asks(skill: Skill) -> None:
    code, out, _ = skill("recommend")
    assert code == 0
    assert "--host-reads" in out
    assert out.splitlines()[-1] == "next: skill scaffold --workflow profile"


def test_a_share_may_be_written_with_its_sign(skill: Skill) -> None:
    assert skill("recommend", "--busy", "97%") == skill("recommend", "--busy", "97")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--framework", "megatrn"], "did you mean megatron?"),
        (["--training", "--inference"], "not allowed with"),
        (["--decode", "--training"], "nearest: `skill recommend --decode`"),
        (["--busy", "101"], "between 0 and 100"),
        (["--busy", "nan"], "between 0 and 100"),
        (["--busy", "high"], "invalid number value"),
        (["--shapes", "dinamic"], "did you mean dynamic?"),
        (["--amp", "fp8"], "bf16, fp16"),
        (["--fp-8"], "did you mean --fp8?"),
        (["manual"], "one argument too many"),
    ],
)
def test_answers_that_cannot_be_are_one_sentence_and_exit_2(arguments: list[str], says: str, skill: Skill) -> None:
    code, out, err = skill("recommend", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_launchers_work_and_name_each_other(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "recommend.py"), "--training"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    step = done.stdout.splitlines()[-1].removeprefix("next: ").split()
    assert step[:2] == ["python", f"{ROOT}/tools/scaffold.py"]
    done = subprocess.run([sys.executable, *step[1:], *FOR], cwd=tmp_path, capture_output=True, text=True, check=True)
    ast.parse(done.stdout)
    command = [sys.executable, step[1], "manual", "--ddp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.endswith(f"nearest: `python {ROOT}/tools/scaffold.py --workflow manual`\n")


def test_a_bare_clone_says_what_is_missing() -> None:
    command = [sys.executable, "-S", str(ROOT / "tools" / "scaffold.py"), "manual", "--training", *FOR]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "pip install jinja2" in done.stderr
