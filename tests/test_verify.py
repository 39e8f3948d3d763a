"""`skill verify`: what it runs for each claim, and what it says of what ran; real programs, on the CPU."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from threading import Event

import pytest
import yaml
from cudagraph_skill import cli
from cudagraph_skill.capture.session import Listener
from cudagraph_skill.diagnosis.entries import Entry, open_table
from cudagraph_skill.scaffold import file
from cudagraph_skill.verify import card, output, probes, programs
from cudagraph_skill.verify.card import Claim
from cudagraph_skill.verify.fences import runnable
from cudagraph_skill.verify.programs import Machine, Program

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = card.claims(ROOT)
HERE = Machine(sys.executable, {"torch": "2.13.0+cpu", "transformer-engine": "2.20.2"}, 1, "a CPU")
LISTENER = Listener(lambda _: None)


def _plan(root: Path, most: int = 0, listener: Listener = LISTENER) -> probes.Plan:
    return probes.Plan(root, HERE, most, 60.0, listener)


def _claim(**probe: object) -> Claim:
    return Claim("a", "it does", "run", "a machine", "", probe)


@pytest.fixture
def bare_prelude(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the model of the prelude, which needs a GPU."""
    monkeypatch.setattr(probes, "PRELUDE", "loss = 1\n")


# The card -------------------------------------------------------------------------------------------------------------


def test_every_claim_has_an_id_of_its_own() -> None:
    ids = [claim.id for claim in CLAIMS]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.probe], ids=lambda claim: claim.id)
def test_what_a_claim_runs_is_there(claim: Claim) -> None:
    for kind, given in claim.probe.items():
        if kind == "fences":
            assert runnable(ROOT, given)
        elif kind in {"errors", "hazards"}:
            assert list(ROOT.glob(given))
        elif kind == "scaffolds":
            assert all(file.options(options) for options in given)
        else:
            assert kind == "bench"
            assert cli.main(["bench", "--list"]) == 0


def test_a_claim_without_a_probe_is_said_not_to_have_run() -> None:
    (found,) = probes.verified([next(claim for claim in CLAIMS if not claim.probe)], _plan(ROOT))
    assert found.state == "not run"
    assert found.left_out


def test_an_unknown_claim_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "hazard"]) == 2
    assert "did you mean hazards?" in capsys.readouterr().err


def test_the_list_names_each_claim_with_what_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--list", "--json"]) == 0
    assert [claim["id"] for claim in json.loads(capsys.readouterr().out)["claims"]] == [claim.id for claim in CLAIMS]
    assert cli.main(["verify", "--list", "tune"]) == 0
    assert "limits: " in capsys.readouterr().out


def test_all_and_a_sample_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--all", "--sample", "3"]) == 2
    assert "`--sample`" in capsys.readouterr().err


def test_a_python_without_torch_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    assert cli.main(["verify", "--python", str(bare)]) == 3
    assert "has no torch" in capsys.readouterr().err


def test_a_torch_without_a_gpu_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert cli.main(["verify", "--python", sys.executable]) == 3
    assert "sees no GPU" in capsys.readouterr().err


# Programs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "lacking"),
    [
        ("", ""),
        ("torch>=2.13", ""),
        ("torch>=2.14 gpus=2", "torch>=2.14, gpus=2"),
        ("gpus=1", ""),
        ("transformer-engine", ""),
        ("transformer-engine, megatron-core==0.19.2", "megatron-core==0.19.2"),
    ],
)
def test_what_a_machine_lacks_is_named(needs: str, lacking: str) -> None:
    assert programs.lacks(HERE, needs) == lacking


def test_programs_run_in_folders_of_their_own_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import os, sys\nopen('trace', 'x').close()\nprint(os.getcwd(), sys.argv[1])\nsys.exit(int(sys.argv[1]))\n"
    ended = list(programs.ended([Program(str(number), code, [str(number)]) for number in range(3)], HERE, 60.0))
    assert sorted((done.program.name, done.how) for done in ended) == [
        ("0", ""),
        ("1", "ended with exit code 1"),
        ("2", "ended with exit code 2"),
    ]
    folders = {done.output.split()[0] for done in ended}
    assert len(folders) == 3
    assert not any(Path(folder).exists() for folder in folders)
    assert list(tmp_path.iterdir()) == []


def test_a_program_is_ended_at_its_deadline_with_what_it_started() -> None:
    code = "import subprocess\nslow = subprocess.Popen(['sleep', '600'])\nprint(slow.pid, flush=True)\nslow.wait()\n"
    (done,) = programs.ended([Program("slow", code)], HERE, 2.0)
    assert done.how == "did not end within 2 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.output), 0)


def test_a_cancel_ends_what_runs_and_starts_nothing_more() -> None:
    stop = Event()
    code = "import time\ntime.sleep(600)\n"
    seen = programs.ended([Program("quick", "pass"), *[Program("slow", code)] * 40], HERE, 600.0, stop.is_set)
    assert next(seen).program.name == "quick"
    stop.set()
    assert list(seen) == []


# Probes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("bare_prelude")
def test_a_fence_holds_where_it_ends_well(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "```python run\nassert loss == 1\n```\n"
        "```python\nassert False\n```\n"
        "- in a list:\n\n  ```python run gpus=2\n  assert False\n  ```\n"
        "```python run\nassert loss == 2, 'it is one'\n```\n"
    )
    (found,) = probes.verified([_claim(fences=["*.md"])], _plan(tmp_path))
    assert (found.state, found.ran, found.programs) == ("differs", 2, 3)
    assert found.wrong == ["a.md:13 ended with exit code 1: AssertionError: it is one"]
    assert found.left_out == ["a.md:10 needs gpus=2"]


@pytest.mark.usefixtures("bare_prelude")
def test_a_sample_is_spread_over_all(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("".join(f"```python run\nassert {number} != 5\n```\n" for number in range(10)))
    (found,) = probes.verified([_claim(fences=["*.md"])], _plan(tmp_path, most=4))
    assert (found.state, found.ran, found.programs) == ("differs", 4, 10)  # 0, 2, 5 and 7


ENTRY = next(entry for entry in open_table(ROOT).entries if entry.id == "replay-without-capture")
RAISED = json.loads((ROOT / "tests/evidence/errors.json").read_text())


def _seen(name: str) -> str:
    return next(str(row["fails"]["output"]) for run in RAISED for row in run["results"] if row["id"] == name)


@pytest.mark.parametrize(
    ("fails", "works", "said"),
    [
        ("print(SEEN)", "pass", ""),
        ("print('all is well')", "pass", "not raised, but: all is well"),
        ("print(SEEN)", "raise SystemExit('no')", "the corrected way ended with exit code 1: no"),
        ("print(SEEN)", "print(SEEN)", "not raised"),
    ],
)
def test_an_entry_holds_where_its_message_comes_and_the_other_way_works(
    fails: str, works: str, said: str, tmp_path: Path
) -> None:
    root = tmp_path / "skill"
    root.mkdir()
    for name in ("SKILL.md", "references", "questions"):
        (root / name).symlink_to(ROOT / name)
    program = f"SEEN = {_seen(ENTRY.id)!r}\ndef fails():\n    {fails}\ndef works():\n    {works}\n"
    (root / f"{ENTRY.id.replace('-', '_')}.py").write_text(program)
    (root / "no_entry_of_ours.py").write_text("raise SystemExit('not run')\n")
    (found,) = probes.verified([_claim(errors="*.py")], _plan(root))
    assert found.ran == 1
    assert (found.wrong == []) is (said == "")
    assert all(line.startswith(f"{ENTRY.id}: {said}") for line in found.wrong)


def test_programs_that_a_copy_does_not_have_are_said_not_to_have_run(tmp_path: Path) -> None:
    claim = _claim(errors="tests/errors/*.py", hazards="tests/hazards/cg*.py")
    (found,) = probes.verified([claim], _plan(tmp_path))
    assert found.state == "not run"
    assert len(found.left_out) == 2
    assert "tests/errors" in found.left_out[0]


def test_an_entry_without_a_message_is_shown_by_a_program_that_ends_well() -> None:
    silent = next(entry for entry in open_table(ROOT).entries if not entry.phrases)
    assert isinstance(silent, Entry)
    assert probes.is_raised(silent, ("", True), "")
    assert not probes.is_raised(silent, ("", False), "")


# What is printed --------------------------------------------------------------------------------------------------------


def test_what_differs_is_printed_first_and_the_rest_is_counted() -> None:
    found = probes.Found(_claim(fences=[]), 9, 12, [f"program {number}" for number in range(9)], ["b needs gpus=2"])
    lines = output.found_text(found).splitlines()
    assert lines[0] == "differs  a: it does"
    assert lines[1].split() == "9 of 12 ran, 9 of them otherwise".split()
    assert "3 more" in lines[8]
    assert lines[9].strip() == "not run: b needs gpus=2"
    assert output.summary([found], "a GPU") == "0 hold, 1 differ, 0 not run, on a GPU"
    data = output.found_data([found], "a GPU")
    assert data["ok"] is False
    assert data["claims"][0]["ran"] == 9


def test_the_card_has_no_field_that_nobody_reads() -> None:
    rows = yaml.safe_load((ROOT / "card.yaml").read_text())["claims"]
    assert {name for row in rows for name in row} == {"id", "claim", "status", "evidence", "limits", "probe"}
    assert {kind for row in rows for kind in row.get("probe", {})} == set(probes._KINDS)
