"""`skill config` where values are not known: only what a constraint depends on counts as not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cudagraph_skill.config import correct, examine
from cudagraph_skill.config.options import FLAGS
from cudagraph_skill.config.output import exit_code
from cudagraph_skill.errors import SkillError

_CORE = ["megatron-core==0.19.2"]

_CASES: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "config/unread.yaml").read_text())
READ: dict[str, str] = _CASES["read"]
NOT_READ: dict[str, dict[str, str]] = _CASES["not_read"]


@pytest.mark.parametrize("name", READ)
def test_a_value_that_no_constraint_depends_on_is_at_most_noted(name: str) -> None:
    report = examine(READ[name], ".sh", _CORE, {}, 90)
    assert (exit_code(report), report.unread, report.violations) == (0, [], [])


@pytest.mark.parametrize("name", NOT_READ)
def test_a_value_that_may_change_the_answer_counts_as_not_read(name: str) -> None:
    case = NOT_READ[name]
    report = examine(case["text"], ".sh", _CORE, {}, 90)
    assert exit_code(report) == 4
    assert any(case["reason"] in one for one in report.unread), report.unread


def test_what_was_passed_over_is_noted() -> None:
    report = examine(READ["arguments of the script as paths"], ".sh", _CORE)
    assert any("no constraint depends on: `${1}`, `${2}`" in note for note in report.notes)
    report = examine(READ["the arguments of the script handed on"], ".sh", _CORE)
    assert any("its own arguments (`$@`)" in note for note in report.notes)
    report = examine(READ["precision by a case"], ".sh", _CORE)
    assert any("conditions that are not known (line 1) change nothing" in note for note in report.notes)


def test_a_violation_under_a_condition_is_reported_as_if_it_ran() -> None:
    text = 'if [ "$GRAPHS" = 1 ]; then\n  G="--cuda-graph-impl full_iteration"\nfi\ntrain.py $G'
    report = examine(text, ".sh", _CORE)
    assert [violation.id for violation in report.violations] == ["nan-check-in-whole-iteration"]
    assert any("line 1: runs under a condition" in reason for reason in report.unread)


def test_many_conditions_are_taken_each_by_itself() -> None:
    names = [f"E{number}" for number in range(12)]
    switches = "".join(f'if [ "$USE_{name}" = 1 ]; then\n  {name}="--num-experts 8"\nfi\n' for name in names)
    text = f"{switches}torchrun pretrain_gpt.py --cuda-graph-impl local {' '.join(f'${name}' for name in names)}"
    report = examine(text, ".sh", _CORE, {}, 90)
    assert not report.unread
    assert any("each by itself, change nothing" in note for note in report.notes)


def test_a_value_that_is_not_known_is_not_written_into_a_correction() -> None:
    text = "torchrun p.py --cuda-graph-impl local --inference-dynamic-batching-cuda-graph-max-tokens $TOKENS\n"
    corrected = correct(text, lambda new: examine(new, ".sh", _CORE))
    assert corrected.text == text
    assert any("`${TOKENS}`, is not known" in reason for reason in corrected.left)


def test_elements_of_an_array_are_split_where_they_are_used_without_quotes() -> None:
    text = 'G=("--cuda-graph-impl full_iteration")\ntrain.py ${G[@]}'
    assert [violation.id for violation in examine(text, ".sh", _CORE).violations] == ["nan-check-in-whole-iteration"]


@pytest.mark.parametrize("flag", [flag for flag, kind in FLAGS.items() if kind.kind == "one"])
def test_without_graphs_only_flags_about_graphs_matter(flag: str) -> None:
    report = examine(f"train.py --bf16 {flag} $X", ".sh", ["megatron-core==0.17.1"], {}, 90)
    undecided = [reason for reason in report.unread if "not decided" in reason]
    assert not undecided or "cuda-graph" in flag


@pytest.mark.parametrize(
    ("text", "exit_of"),
    [
        ("MODEL_ARGS:\n  --cuda-graph-impl: local\n  --load: ${CHECKPOINT}\n", 0),
        ("MODEL_ARGS:\n  --cuda-graph-impl: ${IMPL}\n  --bf16: true\n", 4),
        ("model:\n  cuda_graph_impl: transformer_engine\n  num_layers: ${layers}\nrng:\n  te_rng_tracker: true\n", 0),
        ("model:\n  cuda_graph_impl: transformer_engine\n  recompute_granularity: ${how}\nrng:\n  te_rng_tracker: true\n", 4),
        ("env_vars:\n  PYTORCH_CUDA_ALLOC_CONF: ${ALLOC}\nMODEL_ARGS:\n  --cuda-graph-impl: transformer_engine\n", 4),
        ("args:\n  - train.py\n  - --cuda-graph-impl\n  - local\n  - --load\n  - ${CHECKPOINT}\n", 0),
    ],
)
def test_a_document_with_values_that_are_filled_in_elsewhere(text: str, exit_of: int) -> None:
    report = examine(text, ".yaml", _CORE, {}, 90)
    assert exit_code(report) == exit_of, report.unread


def test_a_document_about_something_else_holds_no_configuration() -> None:
    text = (
        "on: push\njobs:\n  build:\n    runs-on: ${{ matrix.platform }}\n    steps:\n      - run: make ${{ inputs.target }}\n"
    )
    with pytest.raises(SkillError, match="no setting of Megatron was found"):
        examine(text, ".yml", _CORE)
