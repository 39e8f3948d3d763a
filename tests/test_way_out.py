"""From a line of a library to the section of references/libraries.md that says what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

from cudagraph_skill.capture.way_out import way_out, ways_out
from cudagraph_skill.check.findings import Library

ROOT = Path(__file__).resolve().parent.parent


def _line(path: str, function: str) -> Library:
    return Library(f"/venv/lib/python3.12/site-packages/{path}", 1, function, "", "")


def test_every_section_says_the_way_out_of_lines() -> None:
    text = (ROOT / "references" / "libraries.md").read_text()
    assert len(ways_out()) == len(re.findall(r"^### ", text, re.MULTILINE)) > 80
    assert [way.reference for way in ways_out() if len(way.text) < 20 or not way.lines] == []
    assert [path for way in ways_out() for path, _ in way.lines if not path.endswith(".py")] == []


def test_a_method_is_found_by_its_class_a_function_by_its_name_and_a_file_by_its_path() -> None:
    ctc = way_out(_line("transformers/models/wav2vec2/modeling_wav2vec2.py", "Wav2Vec2ForCTC.forward"))
    assert ctc is not None
    assert ctc.reference.endswith("#transformers-speech-ctc-loss")
    helper = way_out(_line("transformers/masking_utils.py", "_ignore_causal_mask_sdpa"))
    assert helper is not None
    assert helper.reference.endswith("#transformers-mask-skip-check")
    whole = way_out(_line("transformers/modeling_attn_mask_utils.py", "AttentionMaskConverter._expand_mask"))
    assert whole is not None
    assert whole.reference.endswith("#transformers-legacy-mask-helpers")


def test_python_3_10_has_no_class_in_its_frames() -> None:
    way = way_out(_line("transformers/models/wav2vec2/modeling_wav2vec2.py", "forward"))
    assert way is not None


def test_other_lines_have_none() -> None:
    assert way_out(_line("transformers/masking_utils.py", "no_such_function")) is None
    assert way_out(_line("mytransformers/masking_utils.py", "_ignore_causal_mask_sdpa")) is None
    assert way_out(_line("numpy/linalg.py", "solve")) is None
