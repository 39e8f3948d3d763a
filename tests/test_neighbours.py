"""What measures says if another program uses the GPU: `nvidia-smi` is a script here that prints a utilization."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.capture import neighbours, session
from cudagraph_skill.capture.host import Ended
from cudagraph_skill.capture.request import Request

if TYPE_CHECKING:
    from pathlib import Path

BUSY = "another program uses this GPU (55 % utilization"


def says(folder: Path, *percents: str) -> None:
    """Write an `nvidia-smi` that prints one of these after the other, the last one again."""
    lines = "\n".join(f"[ $count = {number} ] && echo {percent} && exit" for number, percent in enumerate(percents))
    count = f"count=$(cat {folder}/count 2>&- || echo 0); echo $((count + 1)) > {folder}/count"
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{count}\n{lines}\necho {percents[-1]}\n")
    (folder / "nvidia-smi").chmod(0o755)


@pytest.fixture(autouse=True)
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of `nvidia-smi`, which is not there yet."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(neighbours, "_PAUSE", 0)
    return tmp_path


@pytest.mark.parametrize(
    ("percents", "said"),
    [(["0"], ""), (["9"], ""), (["55"], BUSY), (["90", "90", "55"], BUSY), (["90", "0"], ""), (["[N/A]"], "")],
)
def test_a_gpu_that_stays_in_use_is_seen(percents: list[str], said: str, driver: Path) -> None:
    assert neighbours.utilization() == ""  # nothing that could say it
    says(driver, *percents)
    found = neighbours.utilization()
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(("measure", "noted"), [("mapping", True), ("costs", True), ("ways", True), ("", False)])
def test_what_measures_notes_it_and_a_check_does_not_ask(
    measure: str, noted: bool, driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"verdict": "safe", "said": "captures", "causes": [], "notes": ["a note of the guest"]}
    monkeypatch.setattr(session, "answered", lambda *_: Ended(answer, [], {"how": "done"}, ""))
    says(driver, "55")
    request = Request("train.py:step", sys.executable, ".", measure=measure)
    (result,) = session.examine([request], session.Guests(), session.Listener(lambda _: None))
    assert [note.startswith(BUSY) for note in result.notes] == [True] * noted + [False]
    assert (driver / "count").exists() is noted
