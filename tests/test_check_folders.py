"""Many files: the same answer from worker processes as from one, whatever happens to one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths, check_text, parallel, paths
from cudagraph_skill.check.findings import Unread
from cudagraph_skill.check.interpreter import statements
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from pathlib import Path

EVERY = Options(every=True)
STEP = "import torch\ndef step(x: torch.Tensor):\n    return x / x.max().item()\n"
CAPTURE = "g = torch.cuda.CUDAGraph()\nx = torch.ones(2, device='cuda')\nwith torch.cuda.graph(g):\n    step(x)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write twenty files with one finding each, files that are not Python, and one that captures nothing."""
    for place in range(20):
        (tmp_path / f"m{place:02}.py").write_text("\n" * place + STEP + CAPTURE)
    (tmp_path / "n1.py").write_text("import torch.cuda.graphs\nno Python\n")
    (tmp_path / "n2.py").write_text("no Python\n")
    (tmp_path / "n3.py").write_bytes(b"\xff\xfe" + (STEP + CAPTURE).encode("utf-16-le"))
    return tmp_path


@pytest.mark.parametrize("options", [EVERY, Options()])
def test_workers_find_the_same_in_the_same_order(folder: Path, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: 3)
    together = check_paths([str(folder)], options)
    monkeypatch.setattr(paths, "_FEW", 1000)
    assert check_paths([str(folder)], options) == together
    assert [finding.line for finding in together.findings] == [*range(3, 23), 3]
    assert [finding.path for finding in together.findings] == sorted(finding.path for finding in together.findings)


def test_what_captures_nothing_is_not_parsed_unless_it_was_named(folder: Path) -> None:
    def unread(*targets: Path, every: bool = False) -> list[str]:
        notes = check_paths([str(target) for target in targets], Options(every=every)).notes
        return [note.partition(":")[0].rpartition("/")[2] for note in notes]

    assert unread(folder) == ["n1.py"]
    assert unread(folder, folder / "n2.py") == ["n1.py", "n2.py"]
    assert unread(folder, every=True) == ["n1.py", "n2.py"]


def test_a_worker_that_dies_costs_one_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dies = "f = parallel.read_target; parallel.read_target = lambda t, o: sys.exit(7) if 'm07' in t.path else f(t, o)"
    start = parallel._START.replace("; parallel.work()", f"; {dies}; parallel.work()")
    monkeypatch.setattr(parallel, "_START", start)
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    report = check_paths([str(folder)], Options())
    assert len(report.findings) == 20
    assert report.unread == [Unread(f"{folder}/m07.py", 1, "the file", "the process that read it ended with 7")]


@pytest.mark.parametrize("start", ["raise SystemExit(1)", "print('no worker')", ""])
def test_without_workers_files_are_read_here(folder: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_START", start)
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    assert len(check_paths([str(folder)], Options()).findings) == 21


def test_a_name_that_is_not_there_is_said_as_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    with pytest.raises(SkillError, match="did you mean `step`") as caught:
        check_paths([str(folder), f"{folder}/m00.py:stop"], EVERY)
    assert caught.value.exit_code == 2


def test_a_program_without_a_guard_is_not_run_again(folder: Path) -> None:
    asking = (
        "from cudagraph_skill.check import Options, check_paths\nprint(len(check_paths(['.'], Options(every=True)).findings))\n"
    )
    (folder.parent / "ask.py").write_text(asking)
    done = subprocess.run([sys.executable, "../ask.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("21\n", "")


@pytest.mark.parametrize("error", [KeyError("torch\x1b[1m"), RecursionError("deep"), MemoryError(), ValueError("x" * 999)])
def test_a_mistake_of_ours_costs_one_function(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise error

    monkeypatch.setitem(statements.STATEMENTS, __import__("ast").Delete, fails)
    text = f"{STEP}def worse(x: torch.Tensor):\n    del x\n{STEP.replace('step', 'last')}"
    report = check_text(text, "train.py", None, EVERY)
    assert [finding.line for finding in report.findings] == [3, 8]
    (part,) = report.unread
    assert (part.path, part.name) == ("train.py", "worse")
    assert part.reason.isprintable()
    assert len(part.reason) < 300
    assert check_text(text, "train.py", "worse", Options()).regions == [] or isinstance(error, RecursionError)


def test_each_file_has_the_same_room_however_deep_the_caller_stands() -> None:
    text = f"import torch\ndef f(x: torch.Tensor):\n    return x + {'-' * 60}x.sum().item() + {'(' * 60}1{')' * 60}\n"

    def from_depth(depth: int) -> object:
        return from_depth(depth - 1) if depth else check_text(text, "f.py", "f", Options())

    limit = sys.getrecursionlimit()
    assert from_depth(0) == from_depth(limit - 300)
    assert sys.getrecursionlimit() == limit


def test_a_comment_silences_in_the_file_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import torch\nfrom helper import scale\ndef step(x: torch.Tensor):\n    return scale(x)\n"
    )
    helper = "def scale(x):\n    return x / x.max().item()"
    (tmp_path / "helper.py").write_text(helper)
    assert [(finding.path, finding.line) for finding in check_paths(["train.py:step"], Options()).findings] == [
        ("helper.py", 2)
    ]
    (tmp_path / "helper.py").write_text(f"{helper}  # cg: allow CG201 - once, before the loop\n")
    assert check_paths(["train.py:step"], Options()).findings == []


def _checked(where: Path, *arguments: str) -> tuple[int, str, str]:
    """Check in another process that may not pass over permissions, even if root started these tests."""
    mortal = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if mortal and shutil.which("setpriv") is None:
        pytest.skip("root may read everything")
    command = [*mortal, sys.executable, "-m", "cudagraph_skill", "check", "--output-format", "concise", *arguments]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Write one good file, beside what cannot be read."""
    for name in ("good.py", "closed.py", "locked/inner.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(STEP + CAPTURE)
    (tmp_path / "binary.py").write_bytes(bytes(range(256)) * 9)
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "closed.py").chmod(0)
    (tmp_path / "locked").chmod(0)
    return tmp_path


def test_what_cannot_be_read_costs_a_note_and_no_other_file(odd: Path) -> None:
    code, out, err = _checked(odd, ".")
    assert code == 1
    assert out.startswith("good.py:3:16: CG201 error")
    assert [line.replace("could not be read as Python: ", "") for line in err.splitlines()] == [
        "binary.py: it is binary data",
        "closed.py: Permission denied",
        "gone.py: No such file or directory",
        "pipe.py: it is a pipe or a device, not a file; `-` reads standard input",
        "locked: Permission denied",
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("binary.py", "it is binary data"),
        ("closed.py", "Permission denied"),
        ("locked", "Permission denied"),
        ("locked/inner.py", "Permission denied"),
        ("pipe.py", "it is a pipe or a device"),
        ("/dev/null", "it is a pipe or a device"),
    ],
)
def test_what_cannot_be_read_is_exit_2_and_no_matter_of_syntax(odd: Path, name: str, why: str) -> None:
    code, out, err = _checked(odd, name)
    assert (code, out.splitlines()[-1]) == (2, "next: name Python source that can be read")
    assert err.startswith(f"{name}: could not be read as Python: {why}")


def test_a_link_that_leads_nowhere_is_no_typing_error(odd: Path) -> None:
    assert _checked(odd, "gone.py")[::2] == (
        2,
        "gone.py: this link leads to no file; name one that is there, as FILE or FILE:FUNCTION\n",
    )
