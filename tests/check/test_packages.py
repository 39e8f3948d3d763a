"""Installed packages of `--python`: their source is read, within bounds, and nothing of them is run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths
from cudagraph_skill.check.input import modules, packages
from cudagraph_skill.cli import main

if TYPE_CHECKING:
    from cudagraph_skill.check.findings import Report

LAZY = """
import sys
from .helpers import build
open("{ran}", "w").write("ran")
sys.modules[__name__] = Lazy(__name__, {{"models.net": ["Net"]}})
"""
NET = """
import torch
from torch import nn
class Base(nn.Module):
    @classmethod
    def from_pretrained(cls, name):
        return cls(open(name).read())
class Net(Base):
    def __init__(self, config):
        super().__init__()
        self.config, self.layer = config, nn.Linear(4, 4)
    def forward(self, x):
        y = self.layer(x)
        if self.config.trim:
            y = y[y > 0]
        return y, y.sum().item()
    def plain(self, x):
        return self.layer(x)
"""
TRAIN = """
import torch
from zoo import Net, build
model = {made}
x = torch.zeros(4, 4, device="cuda")
for _ in range(3):
    {call}
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    {call}
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return the interpreter of an environment with the package `zoo`."""
    site = tmp_path / "env/lib/python3.12/site-packages"
    files = {
        "__init__.py": LAZY.format(ran=tmp_path / "ran"),
        "helpers.py": "from .models.net import Net\ndef build(name):\n    return Net(name)\n",
        "models/__init__.py": "",
        "models/net.py": NET,
    }
    for name, text in files.items():
        path = site / "zoo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    interpreter = tmp_path / "env/bin/python"
    interpreter.parent.mkdir()
    interpreter.write_text("#!/bin/sh\nexit 1\n")
    interpreter.chmod(0o755)
    return interpreter


def read(python: Path, text: str) -> Report:
    program = python.parents[2] / "train.py"
    program.write_text(dedent(text))
    return check_paths([str(program)], Options(python=str(python)))


@pytest.mark.parametrize(
    "made", ["Net.from_pretrained('n.pt').cuda()", "build('net').cuda().eval()", "Net(object()).to('cuda')"]
)
def test_a_model_of_a_package_is_read(python: Path, made: str) -> None:
    report = read(python, TRAIN.format(made=made, call="model(x)"))
    assert {(finding.id, finding.line) for finding in report.findings} == {("CG201", 10), ("CG210", 10)}
    assert not any(finding.certain for finding in report.findings)
    assert all("zoo/models/net.py:" in finding.message for finding in report.findings)
    assert all(Path(finding.path).name == "train.py" for finding in report.findings)
    assert (report.notes, report.unread) == ([], [])


def test_what_captures_is_not_reported(python: Path) -> None:
    assert read(python, TRAIN.format(made="build('net').cuda()", call="model.plain(x)")).findings == []


def test_nothing_of_a_package_is_run(python: Path) -> None:
    read(python, TRAIN.format(made="build('net').cuda()", call="model(x)"))
    assert not (python.parents[2] / "ran").exists()


def test_without_an_interpreter_no_package_is_opened(python: Path) -> None:
    program = python.parents[2] / "train.py"
    program.write_text(TRAIN.format(made="build('net').cuda()", call="model(x)"))
    assert check_paths([str(program)], Options()).findings == []


def test_a_package_beyond_the_bound_is_a_note(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_OPENED", 1)
    report = read(python, TRAIN.format(made="build('net').cuda()", call="model(x)"))
    assert [part.reason for part in report.unread] == ["it calls `model` (line 10), whose code was not found"]
    assert [note.rpartition(": ")[2] for note in report.notes] == ["zoo"]


def test_a_package_that_takes_long_is_a_note(python: Path) -> None:
    (python.parents[1] / "lib/python3.12/site-packages/zoo/helpers.py").write_text(
        "def build(name):\n    n = 0\n"
        + "    for a in name:\n        n = n + len([a + b for b in name])\n" * 9000
        + "    return n\n"
    )
    report = read(python, TRAIN.format(made="build(unknown)", call="x + 1"))
    assert (report.unread, len(report.regions)) == ([], 1)
    assert [note.rpartition(": ")[2] for note in report.notes] == ["zoo"]


def test_a_package_of_too_many_files_is_a_note(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_FILES", 1)
    report = read(python, TRAIN.format(made="Net(object()).to('cuda')", call="model(x)"))
    assert [note.rpartition(": ")[2] for note in report.notes] == ["zoo"]


def test_the_users_line_is_kept_however_deep_the_library_is(python: Path) -> None:
    deep = "\n".join(f"def f{n}(x):\n    return f{n + 1}(x)" for n in range(12))
    helpers = python.parents[1] / "lib/python3.12/site-packages/zoo/helpers.py"
    helpers.write_text(f"{deep}\ndef f12(x):\n    return x.sum().item()\ndef build(name):\n    return f0\n")
    report = read(python, TRAIN.format(made="build('net')", call="model(x)"))
    assert [(Path(finding.path).name, finding.line, finding.id) for finding in report.findings] == [("train.py", 10, "CG201")]


def test_what_the_check_knows_itself_is_not_opened(python: Path) -> None:
    torch = python.parents[1] / "lib/python3.12/site-packages/torch/__init__.py"
    torch.parent.mkdir()
    torch.write_text("def zeros(*size, device=None):\n    return 3\n")
    report = read(python, TRAIN.format(made="None", call="x.sum().item()"))
    assert {finding.id for finding in report.findings} == {"CG201"}


def test_links_in_a_circle_and_pipes_end(python: Path) -> None:
    zoo = python.parents[1] / "lib/python3.12/site-packages/zoo"
    (zoo / "loop").symlink_to(zoo, target_is_directory=True)
    (zoo / "endless.py").symlink_to("/dev/zero")
    (zoo / "models/net.py").unlink()
    assert packages.defining(zoo, "Net") is None
    (part,) = read(python, TRAIN.format(made="Net(1).cuda()", call="model(x)")).unread
    assert part.reason.endswith("whose code was not found")


def test_a_site_packages_of_ten_gigabytes_costs_little(python: Path) -> None:
    site = python.parents[1] / "lib/python3.12/site-packages"
    for name in ("zoo/models/weights.py", "zoo/models/kernels.so"):
        with (site / name).open("wb") as file:
            file.truncate(5 << 30)  # holes: it takes no room on the disk
    for number in range(500):
        (site / f"other{number}").mkdir()
        (site / f"other{number}/__init__.py").write_text("class Net: pass\n")
    program = python.parents[2] / "train.py"
    program.write_text(TRAIN.format(made="Net(object()).to('cuda')", call="model(x)"))
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
        "from cudagraph_skill.check import Options, check_paths; "
        f"print(len(check_paths([{str(program)!r}], Options(python={str(python)!r})).findings))"
    )
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere", "no such interpreter"), ("bin/python", "site-packages to read"), ("bin/env", "this is no Python interpreter")],
)
def test_an_interpreter_without_packages_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    program = tmp_path / "train.py"
    program.write_text("x = 1\n")
    (tmp_path / "bin").mkdir()
    for file in ("bin/python", "bin/env"):
        (tmp_path / file).write_text("")
    assert main(["check", str(program), "--python", str(tmp_path / name)]) == 3
    assert said in capsys.readouterr().err
