"""A file costs the check bounded time and memory, whatever is in it, and what is no file is not read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cudagraph_skill.check import Options, check_paths, output, reading
from cudagraph_skill.cli import main

TOWER = "f = lambda x: x\n" + "f = (lambda g: lambda x: g(g(x)))(f)\n" * 40 + "f(1)\n"
NESTED = "t = ()\n" + "t = (t, t)\n" * 40
BOMBS = {
    "a wide format": "s = '%9999999999d' % 1\n",
    "a width as an argument": "s = '%*d' % (9999999999, 1)\n",
    "a doubled string": "s = 'a' * 900\n" + "s = s + s\n" * 34,
    "doubled bytes": "s = b'a' * 900\n" + "s += s\n" * 34,
    "zeros in front": "s = '1'.zfill(9999999999)\n",
    "a string in a string": "s = t = 'a' * 900\n" + "s = s.replace('a', t)\n" * 4,
    "powers": "n = 10 ** 10 ** 10\nm = 1 << 9999999999\n",
    "a long list": "n = [0] * 10 ** 10\nm = list(range(10 ** 12))\n",
    "tuples of tuples": f"{NESTED}b = t == t\nd = {{t: 1}}\ns = f'{{t}}'\n",
    "functions of functions": TOWER,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_file_costs_little(name: str, tmp_path: Path) -> None:
    capture = "x = torch.ones(2, device='cuda')\nwith torch.cuda.graph(torch.cuda.CUDAGraph()):\n    y = x * 2\n"
    (tmp_path / "bomb.py").write_text(f"import torch\n{BOMBS[name]}{capture}")
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
        "from cudagraph_skill.check import Options, check_paths; print(len(check_paths(['bomb.py'], Options()).findings))"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_reading_ends_when_its_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = "with torch.cuda.graph(torch.cuda.CUDAGraph()):\n    y = x.item()\n"
    path = tmp_path / "long.py"
    path.write_text("import torch\nx = torch.ones(2, device='cuda')\n" + "x = x * 2\n" * 3000 + capture)
    assert [finding.line for finding in check_paths([str(path)], Options()).findings] == [3004]
    monkeypatch.setattr(reading, "_SECONDS", 0)
    report = check_paths([str(path)], Options())
    assert report.findings == []
    assert report.notes[-1] == f"{path}: reading took longer than 0 seconds and was ended; the rest was not read"
    assert [(part.line, part.name) for part in report.unread] == [(3003, "<module>")]
    assert output.exit_code(report) == 4


def test_files_are_opened_while_another_is_read(tmp_path: Path) -> None:
    path = tmp_path / "step.py"
    path.write_text("x = 1\n")
    opened = threading.Event()

    def opens(path: str) -> bytes:
        opened.set()
        return Path(path).read_bytes()

    with pytest.MonkeyPatch.context() as patch, reading._ONE:
        patch.setattr(reading, "file_bytes", opens)
        other = threading.Thread(target=check_paths, args=([str(path)], Options()))
        other.start()
        assert opened.wait(10)
    other.join()


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "step.py").write_text("import torch\ndef step(x: torch.Tensor):\n    return x.item()\n")
    report = check_paths([str(tmp_path)], Options(every=True))
    assert [finding.line for finding in report.findings] == [3]
    assert sorted(note.partition(": ")[0].rpartition("/")[2] for note in report.notes) == ["pipe.py", "zero.py"]
    assert all("it is a pipe or a device" in note for note in report.notes)


FIXABLE = "import torch\ndef put(x: torch.Tensor):\n    return x + torch.tensor(1.0, device='cuda')\n"
STEP = "import torch\nfrom helper import put\n\ndef step(x: torch.Tensor):\n    return put(x)\n"


def test_fix_changes_only_what_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text(FIXABLE)
    (tmp_path / "train.py").write_text(STEP)
    assert main(["check", "--fix", "train.py:step"]) == 1
    assert (tmp_path / "helper.py").read_text() == FIXABLE
    assert "helper.py: not changed: it was not named" in capsys.readouterr().err
    assert main(["check", "--fix", "train.py:step", "helper.py:put"]) == 0
    assert (tmp_path / "helper.py").read_text() != FIXABLE


def test_fix_parts_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text(FIXABLE)
    (tmp_path / "same.py").hardlink_to(tmp_path / "helper.py")
    assert main(["check", "--fix", "helper.py:put"]) == 2
    assert "it has 2 hard links" in capsys.readouterr().err
    assert (tmp_path / "same.py").read_text() == FIXABLE
