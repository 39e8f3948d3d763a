"""The README opens with a real failed capture; its blocks and the gallery's are what commands print and the evidence says."""

from __future__ import annotations

import json
import re
import shlex
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from cudagraph_skill import cli
from cudagraph_skill.capture import output
from cudagraph_skill.capture.result import CaptureResult
from cudagraph_skill.check.findings import Region
from fences import fences
from raised import EVIDENCE as RAISED

if TYPE_CHECKING:
    from cudagraph_skill.corpus.fences import Fence

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "errors" / "gradscaler_step_in_capture.py"
LOG = "train.log"
PAGES = ("README.md", "docs/gallery.md")


class Shown(NamedTuple):
    """A command of a console block, `head -n` lines of its output at most, and the output that is shown."""

    command: list[str]
    head: int | None
    lines: list[str]


def _shown(page: str) -> list[Shown]:
    """Return each command of the console blocks of a page with what is shown below it."""
    shown: list[Shown] = []
    blocks = [fence.code for fence in fences() if fence.path == page and fence.info == "console"]
    for line in "".join(blocks).splitlines():
        if line.startswith("$ skill "):
            command, _, head = line.removeprefix("$ skill ").partition(" | head -n ")
            shown.append(Shown(shlex.split(command), int(head) if head else None, []))
        else:
            shown[-1].lines.append(line)
    return shown


def _one(info: str) -> Fence:
    """Return the only fence of the README with this info string."""
    (fence,) = [fence for fence in fences() if fence.path == "README.md" and fence.info == info]
    return fence


def _failed() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run on a GPU and its row of the program that the README opens with."""
    runs = json.loads(RAISED.read_text(encoding="utf-8"))
    name = PROGRAM.stem.replace("_", "-")
    ((run, row),) = [(run, row) for run in runs for row in run["results"] if row["id"] == name]
    return run, row


def _examined(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run on a GPU and its row of a captured function of a hazard, such as `CG237:bad_scaled_sgd`."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "benchmarks" / "evidence").glob("*.json"))]
    rows = [(run, row) for kept in runs if isinstance(kept, list) for run in kept for row in run.get("rows", [])]
    ((run, row),) = [(run, row) for run, row in rows if row.get("set") == "hazards" and row.get("id") == name]
    return run, row


def test_the_program_and_its_correction_are_those_that_ran() -> None:
    program = PROGRAM.read_text(encoding="utf-8")
    parts = _one("python").code.strip("\n").split("\n\n\n")
    assert len(parts) == 2
    assert [part for part in parts if f"{part}\n\n\n" not in program] == []
    fails, works = program.split("def works()")
    removed, added = _one("diff").code.splitlines()
    assert removed[:1] + added[:1] == "-+"
    assert f"\n{removed[1:]}\n" in fails
    assert f"\n{added[1:]}\n" in works
    assert works.replace(added[1:], "").count("torch.optim") == 0


def test_the_log_is_that_of_the_run_and_the_correction_ran_without_an_error() -> None:
    run, row = _failed()
    log = row["fails"]["output"].rstrip().splitlines()
    shown = [list(lines) for cut, lines in groupby(_one("text").code.splitlines(), lambda line: line.strip() == "…") if not cut]
    assert shown
    text = "\n".join(log)
    places = [text.index("\n".join(lines)) for lines in shown]
    assert places == sorted(places)
    assert row["works"] == row["works"] | {"code": 0, "output": ""}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    gpu, driver = run["gpus"][0].split(", ")
    assert gpu.startswith("NVIDIA H100")
    machine = f"On an H100 (driver {driver}, torch {run['torch']}, Python {run['python']}, {run['date']})"
    assert f"{machine} it ended in two chained tracebacks of {len(log)} lines" in readme


@pytest.mark.parametrize("page", PAGES)
def test_what_runs_without_a_gpu_prints_what_is_shown(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [each for each in _shown(page) if "--run" not in each.command]
    assert len(shown) > 1
    monkeypatch.chdir(ROOT)
    (tmp_path / LOG).write_text(_failed()[1]["fails"]["output"], encoding="utf-8")
    for words, head, lines in shown:
        cli.main([str(tmp_path / LOG) if word == LOG else word for word in words])
        printed = capsys.readouterr().out.splitlines()[:head]
        assert list(map(_without_numbers, printed)) == list(map(_without_numbers, lines))


def _without_numbers(line: str) -> str:
    """Leave out the line numbers of the references, which move with every section that is added above."""
    return re.sub(r"(references/[\w-]+\.md):\d+", r"\1", line)


@pytest.mark.parametrize("page", PAGES)
def test_what_ran_on_a_gpu_is_the_first_line_that_the_evidence_gives(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = [each for each in _shown(page) if "--run" in each.command]
    verdicts = []
    for command, head, lines in shown:
        target, inputs = command[command.index("--run") + 1], command[-2:]
        path, _, name = target.partition(":")
        run, row = _examined(f"{Path(path).name[:5].upper()}:{name}")
        result = CaptureResult(row["verdict"], row["said"], [], [], [], {}, {}, {}, [], Region(path, 1, name, "named"))
        assert head == 1
        assert inputs == ["--inputs", "inputs"]
        assert lines == [output.summary(result)]
        assert _machine(run) == _machine(_failed()[0])
        assert f"({run['date']})" in text
        verdicts.append(row["verdict"])
    assert verdicts in (["capture_error", "safe"], ["silent_wrong", "safe"])


def _machine(run: dict[str, Any]) -> tuple[str, ...]:
    return (run["gpus"][0], run["torch"], run["cuda"], run["python"])


def test_the_gallery_names_the_machine_of_its_evidence() -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"))
    gpu, driver = _failed()[0]["gpus"][0].split(", ")
    _, torch, cuda, python = _machine(_failed()[0])
    assert f"{gpu} (driver {driver}, torch {torch}, CUDA {cuda}, Python {python})" in text
