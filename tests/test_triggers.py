"""The description in SKILL.md has the words that people use, and says what it is not for."""

from __future__ import annotations

import triggers
import yaml

DATA = triggers.load()
FLOORS = yaml.safe_load((triggers.HERE / "floors.yaml").read_text())["triggers"]


def _figures(description: str) -> tuple[int, int]:
    silent, false = triggers.chosen(description, DATA)
    return len(DATA["ours"]) - len(silent), len(DATA["theirs"]) - len(false)


def test_there_are_twenty_questions_of_each_side_and_each_once() -> None:
    questions = [row["question"] for side in ("ours", "theirs") for row in DATA[side]]
    assert (len(DATA["ours"]), len(DATA["theirs"])) == (20, 20)
    assert len(set(questions)) == 40
    assert {row["kind"] for row in DATA["ours"]} == {"named", "api", "symptom"}


def test_the_description_brings_the_skill_up_for_ours_and_leaves_theirs_alone() -> None:
    up, alone = _figures(triggers.description())
    assert up >= FLOORS["brought up"]
    assert alone >= FLOORS["left alone"]


def test_worse_descriptions_fail() -> None:
    whole = triggers.description()
    assert _figures("Makes PyTorch programs faster on GPUs.")[0] < 5
    assert _figures(whole.partition("Use for ")[0])[0] < FLOORS["brought up"] - 5  # without APIs, errors and symptoms
    greedy = "Also for CUDA kernels, out of memory, DataLoader, quantization, ONNX, graph neural networks, JAX and TensorFlow."
    assert _figures(f"{whole.partition('Not for ')[0]} {greedy}")[1] < FLOORS["left alone"] - 2


def test_search_answers_ours_and_refuses_theirs() -> None:
    refused, answered = triggers.searched(DATA)
    assert len(DATA["ours"]) - len(refused) >= FLOORS["answered"]
    assert sum(row["search"] == "refuse" for row in DATA["theirs"]) - len(answered) >= FLOORS["refused"]


def test_no_question_is_one_that_search_was_taught() -> None:
    taught = "\n".join(path.read_text() for path in (triggers.ROOT / "questions").glob("*.txt")).lower()
    assert [row["question"] for side in ("ours", "theirs") for row in DATA[side] if row["question"].lower() in taught] == []
