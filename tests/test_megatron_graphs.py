"""What the GPU showed of Megatron's graphs is what the cases say, and the references rest on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from user_files import module_of

ROOT = Path(__file__).resolve().parent.parent
GRAPHS = module_of(ROOT / "benchmarks" / "megatron_graphs.py")
CASES = {case.name: case for case in GRAPHS.CASES}
RUNS = json.loads(GRAPHS.EVIDENCE.read_text(encoding="utf-8"))
ROWS = {row["case"]: row for run in RUNS for row in run["rows"]}


@pytest.mark.parametrize("name", ROWS)
def test_a_case_went_as_it_is_expected_to(name: str) -> None:
    assert GRAPHS.as_expected(CASES[name], ROWS[name])


def test_graphs_that_were_not_launched_and_other_errors_are_not_as_expected() -> None:
    case = CASES["0.19.2 local te bf16"]
    row = ROWS[case.name]
    assert not GRAPHS.as_expected(case, {**row, "graph_launches": 0})
    assert not GRAPHS.as_expected(case, {**row, "parameters_that_differ": 1})
    assert not GRAPHS.as_expected(case, {"error": "out of memory"})
    assert not GRAPHS.as_expected(CASES["0.19.2 full_iteration te bf16 sequence64"], {"error": "out of memory"})


def test_every_case_was_run() -> None:
    assert ROWS.keys() == CASES.keys()


def test_modules_of_experts_make_no_graph_of_a_gpt_model_under_local() -> None:
    row = ROWS["0.19.2 local te bf16 moe_router moe_preprocess moe"]
    assert row["graph_launches"] == 0
    assert not GRAPHS.as_expected(CASES[row["case"]], {**row, "graph_launches": 16})


@pytest.mark.parametrize("core", ["0.16.1", "0.17.1", "0.19.2"])
def test_a_fault_goes_away_with_its_cause(core: str) -> None:
    assert ROWS[f"{core} local torch fp32"]["parameters_that_differ"] > 0
    assert ROWS[f"{core} local torch fp32 inputs-kept"]["parameters_that_differ"] == 0


def test_a_case_without_graphs_is_compared_with_the_same_layers() -> None:
    for case in CASES.values():
        eager = case.without_graphs
        assert (eager.core, eager.layers, eager.recipe, eager.gpus, eager.experts) == (
            case.core,
            case.layers,
            case.recipe,
            case.gpus,
            case.experts,
        )
        assert eager.impl == "none"


def test_every_run_names_its_machine() -> None:
    for run in RUNS:
        assert {"date", "gpus", "torch", "cuda", "python", "command", "transformer_engine", "cudnn"} <= run.keys()
