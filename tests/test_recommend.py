"""`skill recommend` follows the decision flow of SKILL.md, and all it recommends are programs that there are."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from cudagraph_skill import recommend, scaffold, scaffolding
from cudagraph_skill.model import SkillError
from cudagraph_skill.recommend import Answers
from cudagraph_skill.scaffold import WORKFLOWS, Options

ROOT = Path(__file__).resolve().parent.parent


def _every() -> list[Answers]:
    values: dict[str, tuple[Any, ...]] = dict.fromkeys(Answers._fields, (False, True))
    values |= {"training": (None, True, False), "shapes": ("", *recommend.KINDS)}
    values |= {"amp": ("", "fp16"), "busy": (None,), "framework": ("", *recommend.FRAMEWORKS[:3])}
    return [Answers(*each) for each in itertools.product(*values.values())]


def _recommended(**answers: Any) -> Options:
    return recommend.recommend(Answers(**answers)).options


def test_every_recommendation_is_a_program_that_there_is() -> None:
    offered = set(scaffold.offered())
    seen = set()
    for answers in _every():
        try:
            found = recommend.recommend(answers)
        except SkillError as error:
            _, _, command = str(error).partition("; nearest: skill recommend ")
            assert command
            continue
        assert {found.options, *(each.options for each in found.instead)} <= offered, answers
        assert found.options.workflow not in {each.options.workflow for each in found.instead}
        assert 20 < len(found.why) < 260
        seen.add(found.options.workflow)
    assert seen == set(WORKFLOWS)


@pytest.mark.parametrize(
    ("answers", "workflow"),
    [
        ({"busy": 95.1}, 1),
        ({"busy": 99, "framework": "megatron"}, 1),
        ({"framework": "megatron", "shapes": "static"}, 6),
        ({"framework": "megatron", "moe": True}, 5),
        ({"framework": "megatron", "shapes": "dynamic"}, 5),
        ({"framework": "megatron-bridge", "fp8": True}, 6),
        ({"fp8": True}, 4),
        ({"framework": "transformer-engine"}, 4),
        ({"pp": True}, 4),
        ({"framework": "pytorch", "shapes": "static"}, 8),
        ({"framework": "pytorch", "shapes": "static", "no_compile": True}, 7),
        ({"training": True, "control": True}, 7),
        ({"training": True, "host_reads": True}, 2),
        ({"training": True, "host_reads": True, "no_compile": True}, 3),
        ({"training": False, "shapes": "dynamic"}, 2),
        ({"training": True, "shapes": "dynamic", "no_compile": True}, 3),
    ],
)
def test_the_decision_flow_of_skill_md(answers: dict[str, Any], workflow: int) -> None:
    assert WORKFLOWS[_recommended(**answers).workflow].number == workflow


def test_skill_md_still_has_the_flow_that_this_follows() -> None:
    text = (ROOT / "SKILL.md").read_text()
    flow = text[text.index("Decision flow:") : text.index("## Workflow 1:")]
    steps = re.findall(r"^\d\. .*", flow, re.MULTILINE)
    assert [re.findall(r"\b[1-8]\b", step.split(".", 1)[1].replace("95", "")) for step in steps] == [
        ["1"],
        ["6", "5", "4"],
        ["4"],
        ["8", "7", "2", "3"],
    ]
    assert f"over {recommend.BUSY:g} %" in flow


def test_every_situation_of_the_api_table_is_reached_or_named() -> None:
    numbers = set()
    for answers in ({}, {"training": True}, {"training": True, "control": True}, {"framework": "megatron"}, {"fp8": True}):
        found = recommend.recommend(Answers(**answers))
        numbers |= {WORKFLOWS[each.workflow].number for each in (found.options, *(other.options for other in found.instead))}
    assert numbers == set(range(1, 9))


@pytest.mark.parametrize(
    ("answers", "has"),
    [
        ({"decode": True}, {"decode": True, "training": False}),
        ({"training": False, "shapes": "buckets"}, {"buckets": True}),
        ({"training": True, "host_reads": True, "no_compile": True}, {"partial": True, "training": True}),
        ({"ddp": True, "amp": "bf16"}, {"training": True, "ddp": True, "amp": "bf16"}),
        ({"fp8": True, "amp": "fp16", "ddp": True}, {"fp8": True, "amp": "bf16", "ddp": False}),
    ],
)
def test_answers_become_options_of_the_program(answers: dict[str, Any], has: dict[str, Any]) -> None:
    assert has.items() <= _recommended(**answers)._asdict().items()


def test_what_the_program_cannot_have_is_said_with_the_reason() -> None:
    found = recommend.recommend(Answers(framework="megatron", training=True, fsdp=True))
    assert any(note.startswith("no --ddp, --fsdp" if "ddp" in note else "no --fsdp") for note in found.notes)
    found = recommend.recommend(Answers(framework="megatron", training=False))
    assert any("the program trains" in note for note in found.notes)


def test_what_was_not_said_is_named() -> None:
    (note,) = recommend.recommend(Answers(no_compile=True)).notes
    assert all(word in note for word in ("plain PyTorch", "inference", "static shapes", "--training"))
    assert recommend.recommend(Answers(framework="pytorch", training=True, shapes="static")).notes == ()


def test_without_answers_the_questions_are_told_and_measuring_comes_first() -> None:
    found = recommend.recommend(Answers())
    assert found.options.workflow == "profile"
    asked = " ".join(found.questions)
    options = {f"--{name.replace('_', '-')}" for name in Answers._fields}
    assert {option for option in options if option not in asked} == set()


def test_a_busy_gpu_is_told_that_graphs_will_not_help() -> None:
    found = recommend.recommend(Answers(busy=97, training=True))
    assert "graphs will not help" in found.why
    assert (found.options.workflow, found.instead) == ("profile", ())


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"framework": "megatrn"}, "did you mean megatron?"),
        ({"framework": "jax"}, "there are pytorch, transformer-engine, megatron, megatron-bridge"),
        ({"shapes": "dinamic"}, "did you mean dynamic?"),
        ({"amp": "fp8"}, "--amp fp8"),
        ({"busy": 101}, "between 0 and 100"),
        ({"busy": float("nan")}, "between 0 and 100"),
        ({"decode": True, "training": True}, "nearest: skill recommend --decode"),
        ({"ddp": True, "fsdp": True}, "nearest: skill recommend --fsdp"),
        ({"ddp": True, "training": False}, "nearest: skill recommend --inference"),
        ({"decode": True, "pp": True}, "nearest: skill recommend --decode"),
    ],
)
def test_answers_that_cannot_be_are_refused_with_the_nearest(answers: dict[str, Any], says: str) -> None:
    with pytest.raises(SkillError, match=re.escape(says)):
        recommend.recommend(Answers(**answers))


@pytest.mark.parametrize(
    ("typed", "means"),
    [("Megatron_Core", "megatron"), ("te", "transformer-engine"), ("torch", "pytorch"), ("megatron bridge", "megatron-bridge")],
)
def test_a_framework_has_the_names_that_people_use(typed: str, means: str) -> None:
    assert recommend.framework(typed) == means


def test_text_and_data_end_in_the_same_command() -> None:
    found = recommend.recommend(Answers(training=True, host_reads=True))
    text = scaffolding.recommendation(found, scaffold.spelled)
    data = scaffolding.recommendation_data(found, scaffold.spelled)
    assert text.splitlines()[-1] == f"next: {data['next']}" == "next: --workflow reduce-overhead --training"
    assert text.startswith("workflow 2, reduce-overhead: ")
    assert all(each["command"] in text and each["when"] in text for each in data["instead"])
