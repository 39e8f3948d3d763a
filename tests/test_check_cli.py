"""`skill check` as a person and as a script meet it, on a small analysis of its own: every `.item()` is a finding."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill import check, cli
from cudagraph_skill.check.findings import Edit, Finding, Region, Report
from cudagraph_skill.check.input.settings import chosen
from cudagraph_skill.check.input.source import Source, allowed, read_source
from cudagraph_skill.check.input.targets import expand, names, no_function
from hazard_sample import sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check import Options

    Skill = Callable[..., tuple[int, str, str]]

__all__ = ["sample"]  # a fixture

ROOT = Path(__file__).resolve().parent.parent
STEP = "def step(x):\n    y = x.item()\n    return y\n"
CLEAN = "def step(x):\n    return x * 2\n"


def _found(source: Source, function: str | None, options: Options) -> Report:
    report = Report([], [], list(source.notes), [])
    if source.tree is None:
        return report._replace(notes=[source.problem])
    if function and function not in names(source.tree):
        raise no_function(source, function)
    for line, text in enumerate(source.text.split("\n"), 1):
        at = text.find(".item()")
        edit = Edit(line, at, line, at + 7, "") if at >= 0 else None
        finding = Finding(source.path, line, at + 1, "CG201", "`.item()` waits for the GPU", edit=edit)
        if edit and not allowed(source, finding) and chosen(finding.id, options):
            report.findings.append(finding)
    if function or options.every:
        report.regions.append(Region(source.path, 1, function or "step", "named"))
    return report


def _paths(targets: list[str], options: Options) -> Report:
    reports = [_found(read_source(path), function, options) for path, function in expand(targets, options)]
    return Report(*([item for part in same for item in part] for same in zip(*reports, strict=True)))


@pytest.fixture
def skill(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Skill:
    """Run `skill check` in an empty folder that has a project's `train.py`."""
    assert sample.is_file()
    monkeypatch.setattr(check, "check_paths", _paths)
    monkeypatch.setattr(
        check, "check_text", lambda text, name, function, options: _found(read_source(name, text), function, options)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["skill"])
    monkeypatch.setenv("PATH", "")
    (tmp_path / "train.py").write_text(STEP)

    def run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main(["check", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_finding_is_exit_1_and_ends_with_a_command_that_works(skill: Skill) -> None:
    code, out, err = skill("train.py:step")
    assert (code, err) == (1, "")
    assert out.startswith("train.py:2:10: CG201 error `.item()` waits for the GPU\n  2 |     y = x.item()\n    |          ^\n")
    assert out.splitlines()[-1] == "next: skill explain CG201"


def test_clean_code_is_exit_0_and_its_next_command_works(skill: Skill, capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(CLEAN)
    code, out, err = skill("train.py", "--function", "step")
    assert (code, err) == (0, "")
    assert out.startswith("step: no errors, no warnings")
    assert cli.main(["read", out.split()[-1].strip("'")]) == 0
    assert "torch" in capsys.readouterr()[0]


@pytest.mark.parametrize(
    "arguments", [("-", "--function", "step"), ("-:step",), ("-", "--function", "step", "--output-format", "concise")]
)
def test_source_comes_from_standard_input(arguments: tuple[str, ...], skill: Skill) -> None:
    code, out, err = skill(*arguments, stdin=STEP.replace("\n", "\r\n").encode("utf-8-sig"))
    assert (code, err) == (1, "")
    assert out.startswith("<stdin>:2:10: CG201 error")
    assert ("  2 |     y = x.item()" in out) == (len(arguments) < 4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name what to read: FILE, FILE:FUNCTION, a folder, or -"),
        (["nowhere.py"], "nowhere.py: there is no such file"),
        (["trian.py:step"], "did you mean train.py?"),
        (["train.py:stop"], "did you mean `step`? it has: step"),
        (["train.py:"], "no function follows the colon"),
        (["train.py:3"], "`3` after the colon is not a function name"),
        (["empty"], "this folder has no Python file"),
        (["empty:step"], "empty is a folder"),
        (["x" * 5000], "there is no such file"),
        ([""], "the name of the file is empty"),
        (["a\0b"], "the name of the file is empty"),
        (["train.py", "train.py", "--function", "step"], "--function is for one file"),
        (["-", "train.py"], "give no other file"),
        (["-", "--fix"], "--fix changes files"),
        (["train.py", "--fix", "--diff"], "not allowed with"),
        (["train.py", "--select", "E501"], "--select: `E501` is not a hazard"),
        (["train.py", "--output-format", "xml"], "invalid choice"),
        (["train.py", "--jsn"], "did you mean --json"),
    ],
)
def test_misuse_is_one_sentence_and_exit_2(arguments: list[str], says: str, skill: Skill) -> None:
    Path("empty").mkdir()
    code, out, err = skill(*arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_misuse_is_json_for_those_who_read_json(skill: Skill) -> None:
    for arguments in (("--json",), ("--output-format", "json"), ("--output-format=json",)):
        code, out, _ = skill("nowhere.py", *arguments)
        assert code == 2
        assert "no such file" in json.loads(out)["error"]


@pytest.mark.parametrize("data", [b"def step(:\n", b"\x7fELF" + bytes(99), b"x = " + b"(" * 999])
def test_what_is_no_python_is_exit_2_with_the_position(data: bytes, skill: Skill) -> None:
    Path("bad.py").write_bytes(data)
    code, out, err = skill("bad.py")
    assert code == 2
    assert err.startswith("bad.py:")
    assert err.count("\n") == 1
    assert out.startswith("nothing was checked: 1 file ")
    code, out, _ = skill("bad.py", "--json")
    assert (code, json.loads(out)["verdict"]) == (2, "unread")
    Path("train.py").write_text(CLEAN)
    assert skill("train.py:step", "bad.py")[0] == 2
    assert skill(".", "--all")[0] == 0


def test_a_comment_or_a_flag_or_the_project_silences(skill: Skill) -> None:
    assert skill("train.py", "--ignore", "CG2")[0] == 0
    assert skill("train.py", "--ignore", "CG2", "--select", "CG201")[0] == 1
    assert skill("train.py", "--select", "CG101,CG501")[0] == 0
    Path("pyproject.toml").write_text('[tool.cudagraph-skill]\nignore = ["device-value-read"]\n')
    assert skill("train.py")[0] == 0
    assert skill("train.py", "--ignore", "CG1")[0] == 1
    Path("pyproject.toml").write_text("[tool.cudagraph-skill]\nignor = []\n")
    assert "has the key `ignor`" in skill("train.py")[2]
    Path("pyproject.toml").unlink()
    Path("train.py").write_text(STEP.replace("item()", "item()  # cg: allow CG201 - constant"))
    assert skill("train.py")[0] == 0
    Path("train.py").write_text(STEP.replace("item()", "item()  # cg: allow CG999"))
    code, _, err = skill("train.py")
    assert code == 1
    assert err == "train.py:2: `cg: allow CG999`: there is no hazard CG999\n"


def test_targets_of_two_projects_have_each_their_own_settings(skill: Skill) -> None:
    for name, table in (("one", 'ignore = ["CG2"]'), ("two", "")):
        Path(name).mkdir()
        Path(name, "pyproject.toml").write_text(f"[tool.cudagraph-skill]\n{table}\n")
        Path(name, "train.py").write_text(STEP)
    code, out, _ = skill("one", "two/train.py", "--json")
    assert code == 1
    assert [finding["path"] for finding in json.loads(out)["findings"]] == ["two/train.py"]


def test_diff_shows_and_changes_nothing(skill: Skill) -> None:
    code, out, err = skill("train.py", "--diff")
    assert code == 1
    assert out.splitlines()[0] == "--- a/train.py"
    assert "+    y = x" in out
    assert "next:" not in out
    assert err.startswith("1 place would change; ")
    assert Path("train.py").read_text() == STEP
    assert "+    y = x" in json.loads(skill("train.py", "--diff", "--json")[1])["diff"]
    assert skill("-", "--diff", stdin=STEP.encode())[1].startswith("--- a/<stdin>")


def test_fix_shows_the_diff_changes_the_file_and_reports_what_is_left(skill: Skill) -> None:
    code, out, err = skill("train.py:step", "--fix")
    assert code == 0
    assert "+    y = x" in out
    assert "step: no errors, no warnings" in out
    assert err == "fixed 1 place in train.py\n"
    assert Path("train.py").read_text() == STEP.replace(".item()", "")
    code, out, err = skill("train.py:step", "--fix")
    assert err == "no automatic fix applies\n"


def test_nothing_captured_says_how_to_name_it(skill: Skill) -> None:
    Path("train.py").write_text(CLEAN)
    code, out, _ = skill("train.py")
    assert code == 0
    assert out.splitlines()[-1] == "next: skill check FILE:FUNCTION"


def test_a_launcher_reads_a_file_without_any_package_installed(tmp_path: Path) -> None:
    path = tmp_path / "a:b.py"
    path.write_text(CLEAN)
    launcher = ROOT / "tools" / "check.py"
    done = subprocess.run([sys.executable, "-S", launcher, f"{path}:step"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("step: no errors, no warnings")
    assert f"next: python {ROOT}/tools/read.py " in done.stdout


def test_a_closed_stdin_is_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    command = f"{sys.executable} -m cudagraph_skill check - <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, cwd=tmp_path, env=environment, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


def test_statistics_count_each_hazard(skill: Skill) -> None:
    code, out, _ = skill("train.py:step", "--statistics")
    assert code == 1
    assert out == "1\tCG201\terror\tdevice-value-read\n"


def test_a_fixable_finding_is_counted(skill: Skill) -> None:
    _, out, _ = skill("train.py:step")
    assert "\n1 fixable with `--fix`\nnext: " in out


@pytest.mark.slow
def test_watch_checks_again_when_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text("def step(x):\n    return x / x.max().item()\n")
    command = [sys.executable, "-m", "cudagraph_skill", "check", "step.py:step", "--watch"]
    watcher = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert watcher.stdout is not None
    try:
        assert watcher.stdout.readline().startswith("step.py:2:")
        file.unlink()  # as an editor does that replaces it
        time.sleep(1)
        file.write_text("def step(x):\n    return x / x.max()\n")
        rest = iter(watcher.stdout.readline, "")
        assert any(line.startswith("step: no errors") for line in rest)
    finally:
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(20) == 130
        watcher.stdout.close()
