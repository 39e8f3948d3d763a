"""Each program captures and replays in a plain script as the evidence and the labels say, with no harness around it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import plain
import pytest
import replayed

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = pytest.mark.parametrize(("id_", "path"), plain.programs().items(), ids=plain.programs())
CLOCK = "it reads the clock: eager differs from process to process, too"
# Where the verdict is not that of tests/evidence/hazards.json or benchmarks/snippets.json, and why
DIFFERS = {
    "CG104 bad_animated_wave": CLOCK,
    "CG104 bad_clock_under_another_name": CLOCK,
    "CG104 bad_phase_property": CLOCK,
    "CG111 bad_identity_as_seed": "it seeds with an address: eager differs from process to process, too",
    "318_tremolo_effect_chain make": CLOCK,
    "436_session_recency_ranker make": CLOCK,
    "528_lagged_gain_control make": "it reads pinned memory while a copy into it may be on its way: eager differs, too",
}


@pytest.fixture(scope="module")
def evidence() -> dict[str, dict[str, Any]]:
    assert plain.EVIDENCE.exists(), "never run: python tests/plain.py run"
    return plain.kept()


@PROGRAMS
def test_a_plain_script_ran_each_function_as_it_stands(id_: str, path: Path, evidence: dict[str, dict[str, Any]]) -> None:
    if not plain.functions(path):
        assert id_ not in evidence  # scripts of several GPUs
        return
    assert id_ in evidence, f"never run: python tests/plain.py run {id_}"
    assert evidence[id_]["digest"] == replayed.digest(path), f"changed since it was run: python tests/plain.py run {id_}"
    assert set(evidence[id_]["functions"]) == set(plain.functions(path))


def test_no_function_broke(evidence: dict[str, dict[str, Any]]) -> None:
    results = {f"{id_} {name}": result for id_, row in evidence.items() for name, result in row["functions"].items()}
    assert {place: result for place, result in results.items() if result["verdict"] == "broken"} == {}


def test_the_verdicts_are_those_of_the_evidence_and_of_the_labels(evidence: dict[str, dict[str, Any]]) -> None:
    assert evidence
    differing = plain.differing()
    assert {place: how for place, how in differing.items() if place not in DIFFERS} == {}
    assert sorted(DIFFERS.keys() - differing.keys()) == [], "these agree by now"


def test_the_evidence_says_what_it_was_run_on_and_names_no_place_there(evidence: dict[str, dict[str, Any]]) -> None:
    assert evidence
    text = plain.EVIDENCE.read_text()
    assert all(run["gpus"] and run["torch"] and run["cuda"] and run["date"] and run["command"] for run in json.loads(text))
    assert not re.search(r"/(home|root|work|workspace)/", text)


def test_programs_of_one_gpu_are_run_whole_and_those_of_several_without_their_ranks() -> None:
    known = plain.programs()
    assert plain.functions(known["CG610"]) == replayed.functions(known["CG610"])
    assert plain.functions(known["CG701"]) == []
    assert plain.functions(known["CG507"]) == replayed.functions(known["CG507"])
    assert plain.functions(known["572_mc_dropout_forecast"]) == ["make"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # where the test's own process has threads
def test_children_of_the_pool_end_as_they_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def result(way: str, path: str, name: str) -> dict[str, Any]:
        assert path == "program.py"
        if name == "raises":
            raise ValueError(name)
        while name == "hangs":
            pass
        again = {"verdict": "safe" if name == "repeats" else "silent_wrong"}
        wrong = {"verdict": "silent_wrong", "from": 5}
        results: dict[str, dict[str, Any]] = {"eager": {}, "graph": wrong, "again": again, "script": {"verdict": "safe"}}
        return results[way]

    monkeypatch.setattr(plain, "_result", result)
    monkeypatch.setattr(plain, "_DEADLINE_SECONDS", 1)
    names = ("repeats", "differs", "raises", "hangs", "capture_alone")
    jobs: list[dict[str, Any]] = [{"path": "program.py", "name": name, "folder": str(tmp_path / name)} for name in names]
    for name in names:
        (tmp_path / name).mkdir()
    plain._run_all(jobs)
    assert [job["result"]["verdict"] for job in jobs] == ["silent_wrong", "noisy", "broken", "broken", "safe"]
    assert jobs[0]["result"]["from"] == 5
    assert "ValueError: raises" in jobs[2]["result"]["error"]
    assert "ended with None" in jobs[3]["result"]["error"]
