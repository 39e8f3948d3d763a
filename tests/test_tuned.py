"""The evidence on `skill tune` in programs and on other machines is of the programs here, and all of it ran."""

from __future__ import annotations

import ast
import json
import subprocess

import pytest
import tuned

KEPT = json.loads(tuned.EVIDENCE.read_text(encoding="utf-8")) if tuned.EVIDENCE.exists() else {"results": []}


def test_every_case_went_on_a_gpu_as_it_must() -> None:
    rows = {row["name"]: row for row in KEPT["results"]}
    assert set(rows) == set(tuned._RUNS)
    assert [name for name, row in rows.items() if row["wrong"]] == []
    assert [name for name, row in rows.items() if row["digest"] != tuned.digest(name)] == [], "run these again"


@pytest.mark.parametrize("name", tuned.CASES)
def test_the_target_of_a_program_is_there(name: str) -> None:
    case = tuned.CASES[name]
    module, _, function = case.target.rpartition(":")
    path = tuned.PROGRAMS / (f"{module.replace('.', '/')}.py" if module else case.file)
    outer, _, inner = function.partition(".")
    owners = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if getattr(node, "name", "") == outer]
    assert [getattr(part, "name", "") for owner in owners for part in ast.walk(owner)].count(inner) == 1
    assert (tuned.PROGRAMS / case.file).exists()


def test_the_answer_is_found_after_what_the_program_printed() -> None:
    done = subprocess.CompletedProcess("", 0, 'step 5 loss 1.0\n{"a": 1}\n', "")
    assert tuned._answer(done) == {"a": 1}
    assert tuned._answer(subprocess.CompletedProcess("", 2, "", "no")) == {}


def test_losses_are_compared_relative_to_their_size() -> None:
    assert tuned._apart([2.0, 4.0], [2.0, 5.0]) == pytest.approx(0.25)
    assert tuned._apart([], []) == 0.0
