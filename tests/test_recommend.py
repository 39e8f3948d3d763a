"""`skill recommend` follows the decision flow of SKILL.md, and all it recommends are programs that there are."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import output, recommend, rules
from cudagraph_skill.scaffold.options import WORKFLOWS, Options, spelled
from cudagraph_skill.scaffold.recommend import Answers, Recommendation

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.corpus.section import Section

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module", params=[4, pytest.param(len(Answers._fields), marks=pytest.mark.slow)])
def every(request: pytest.FixtureRequest) -> list[Answers]:
    """Return all combinations of at most this many answers."""
    values: dict[str, tuple[Any, ...]] = dict.fromkeys(Answers._fields, (False, True))
    values |= {"training": (None, True, False), "shapes": ("", *recommend.KINDS)}
    values |= {"amp": ("", "fp16"), "busy": (None,), "framework": ("", *recommend.FRAMEWORKS[:3])}
    combinations = itertools.starmap(Answers, itertools.product(*values.values()))
    return [answers for answers in combinations if len(_options(answers)) <= request.param]


@pytest.fixture(scope="module")
def recommendations(every: list[Answers]) -> dict[Answers, Recommendation]:
    """Return the recommendations for answers that do not contradict each other."""
    answered = {}
    for answers in every:
        with suppress(SkillError):
            answered[answers] = recommend.recommend(answers)
    return answered


def _recommended(**answers: Any) -> Options:
    return recommend.recommend(Answers(**answers)).options


def test_every_recommendation_is_a_program_that_there_is(recommendations: dict[Answers, Recommendation]) -> None:
    offered = set(rules.offered())
    for answers, chosen in recommendations.items():
        assert {chosen.options, *(alternative.options for alternative in chosen.instead)} <= offered, answers
        assert chosen.options.workflow not in {alternative.options.workflow for alternative in chosen.instead}
        assert 20 < len(chosen.why) < 260
    assert {chosen.options.workflow for chosen in recommendations.values()} == set(WORKFLOWS)


def test_the_nearest_to_answers_that_cannot_be_are_answers_that_can(
    every: list[Answers], recommendations: dict[Answers, Recommendation]
) -> None:
    known = {recommend.asked(answers) for answers in recommendations}
    for answers in every:
        if answers not in recommendations:
            with pytest.raises(SkillError, match="; nearest: `skill recommend ") as refused:
                recommend.recommend(answers)
            assert str(refused.value).partition("; nearest: `skill recommend ")[2].rstrip("`") in known


_BY_HAND = ("manual", "manual-over-compile")
_COMPILED = ("reduce-overhead", "manual-over-compile")
_STUCK = ("The step is not the same", "MoE dispatch, host reads", "The static parts are graphs", "its static parts are")
# Where a program does what was answered, or the reason for its workflow speaks of it; other answers are its options.
_HAS: dict[str, Callable[[Any, Recommendation], bool]] = {
    "framework": lambda given, chosen: given != "pytorch" or chosen.options.workflow != "transformer-engine",
    "shapes": lambda given, chosen: (
        given == "static"
        or chosen.options.buckets
        or any(why in chosen.why for why in ("The step is not the same", "or changing sizes"))
    ),
    "pp": lambda _, __: False,
    "moe": lambda _, chosen: any(why in chosen.why for why in _STUCK),
    "host_reads": lambda _, chosen: any(why in chosen.why for why in _STUCK),
    "control": lambda _, chosen: chosen.options.workflow in _BY_HAND,
    "no_compile": lambda _, chosen: chosen.options.workflow not in _COMPILED,
}


def _has(name: str, given: Any, chosen: Recommendation) -> bool:
    return _HAS[name](given, chosen) if name in _HAS else bool(getattr(chosen.options, name) == given)


def _options(answers: Answers) -> dict[str, str]:
    """Return the given answers as notes spell them."""
    given = {name: value for name, value in answers._asdict().items() if value not in (None, "", False)}
    options = {name: f"--{name.replace('_', '-')}" for name in given}
    return options | ({"training": "--inference"} if answers.training is False else {})


def test_no_answer_is_left_out_without_a_word(recommendations: dict[Answers, Recommendation]) -> None:
    for answers, chosen in recommendations.items():
        notes = " ".join(chosen.notes)
        for name, option in _options(answers).items():
            assert _has(name, getattr(answers, name), chosen) or option in notes, (option, answers)


def test_nothing_else_that_is_named_contradicts_the_answers(recommendations: dict[Answers, Recommendation]) -> None:
    for answers, chosen in recommendations.items():
        for other in chosen.instead:
            workflow = other.options.workflow
            assert not (answers.no_compile and workflow in _COMPILED), answers
            assert not (answers.control and workflow == "reduce-overhead"), answers
            assert not (answers.control and "optimizer cannot be in the graph" in other.when), answers
            assert not (chosen.options.partial and workflow == "manual-over-compile" and not other.options.partial), answers
            assert not (chosen.options.buckets and workflow in _BY_HAND and not other.options.buckets), answers


def test_the_alternatives_are_for_what_the_answer_was_taken_for(recommendations: dict[Answers, Recommendation]) -> None:
    for answers, chosen in recommendations.items():
        if answers.training is None and not answers.decode:
            assert {alternative.options.training for alternative in chosen.instead} <= {chosen.options.training}, answers


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
        chosen = recommend.recommend(Answers(**answers))
        numbers |= {
            WORKFLOWS[options.workflow].number for options in (chosen.options, *(other.options for other in chosen.instead))
        }
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
    chosen = recommend.recommend(Answers(framework="megatron", training=True, fsdp=True))
    assert any(note.startswith("without `--fsdp`: ") for note in chosen.notes)
    chosen = recommend.recommend(Answers(framework="megatron", training=False))
    assert any("the program trains" in note for note in chosen.notes)


@pytest.mark.parametrize(
    ("answers", "note"),
    [
        ({"control": True, "host_reads": True}, "`--control`: the optimizer stays eager"),
        ({"control": True, "fp8": True}, "`--control`: the capture is the library's own"),
        ({"decode": True, "no_compile": True, "host_reads": True}, "`--host-reads`: that has to move out of the step"),
        ({"fsdp": True, "host_reads": True, "moe": True}, "`--moe`, `--host-reads`: that has to move out of the step"),
        ({"fp8": True, "shapes": "dynamic"}, "`--shapes dynamic`: a graph has one shape"),
        ({"decode": True, "shapes": "buckets"}, "`--shapes buckets`: a step is one token"),
        ({"pp": True}, "`--pp`: the program has one stage"),
        ({"framework": "megatron", "pp": True}, "`--pp`: the program has one stage"),
        ({"fp8": True, "decode": True}, "`--decode`: the program trains"),
        ({"framework": "pytorch", "fp8": True}, "`--framework pytorch`: "),
    ],
)
def test_what_an_answer_comes_to_is_said(answers: dict[str, Any], note: str) -> None:
    assert any(sentence.startswith(note) for sentence in recommend.recommend(Answers(**answers)).notes)


def test_a_step_that_fsdp2_does_not_let_split_is_one_graph() -> None:
    chosen = recommend.recommend(Answers(training=True, fsdp=True, host_reads=True))
    assert chosen.options == Options("manual-over-compile", training=True, fsdp=True)
    assert "all of it is one graph" in chosen.why
    assert "splits it" not in chosen.why


def test_what_stays_in_a_step_of_decoding_has_a_program_too() -> None:
    instead = recommend.recommend(Answers(decode=True, no_compile=True, host_reads=True)).instead
    assert Options("make-graphed-callables", partial=True) in {alternative.options for alternative in instead}


def test_sections_that_notes_name_are_there(sections: list[Section], recommendations: dict[Answers, Recommendation]) -> None:
    refs = {
        ref for chosen in recommendations.values() for note in chosen.notes for ref in re.findall(r"references/\S+#\S+", note)
    }
    assert len(refs) == 2
    assert refs <= {section.ref for section in sections}


def test_what_was_not_said_is_named() -> None:
    (note,) = recommend.recommend(Answers(no_compile=True)).notes
    assert all(word in note for word in ("plain PyTorch", "inference", "static shapes", "--training"))
    assert recommend.recommend(Answers(framework="pytorch", training=True, shapes="static")).notes == ()


def test_without_answers_the_questions_are_told_and_measuring_comes_first() -> None:
    chosen = recommend.recommend(Answers())
    assert chosen.options.workflow == "profile"
    asked = " ".join(chosen.questions)
    options = {f"--{name.replace('_', '-')}" for name in Answers._fields}
    assert {option for option in options if option not in asked} == set()


def test_a_busy_gpu_is_told_that_graphs_will_not_help() -> None:
    chosen = recommend.recommend(Answers(busy=97, training=True))
    assert "graphs will not help" in chosen.why
    assert (chosen.options.workflow, chosen.instead) == ("profile", ())


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"framework": "megatrn"}, "did you mean megatron?"),
        ({"framework": "jax"}, "there are pytorch, transformer-engine, megatron, megatron-bridge"),
        ({"shapes": "dinamic"}, "did you mean dynamic?"),
        ({"amp": "fp8"}, "--amp fp8"),
        ({"busy": 101}, "between 0 and 100"),
        ({"busy": float("nan")}, "between 0 and 100"),
        ({"decode": True, "training": True}, "nearest: `skill recommend --decode`"),
        ({"ddp": True, "fsdp": True}, "nearest: `skill recommend --fsdp`"),
        ({"ddp": True, "training": False}, "nearest: `skill recommend --inference`"),
        ({"decode": True, "pp": True}, "nearest: `skill recommend --decode`"),
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
    chosen = recommend.recommend(Answers(training=True, host_reads=True))
    text = output.recommendation(chosen, spelled)
    data = output.recommendation_data(chosen, spelled)
    assert text.splitlines()[-1] == f"next: {data['next']}" == "next: --workflow reduce-overhead --training"
    assert text.startswith("workflow 2, reduce-overhead: ")
    assert all(alternative["command"] in text and alternative["when"] in text for alternative in data["instead"])
