"""A pasted log keeps what it says and loses what terminals, launchers and repetition put around it."""

from __future__ import annotations

import json
import re

import pytest
from cudagraph_skill.diagnosis import log
from cudagraph_skill.errors import SkillError

CHAINED = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 41, in step
    scale = loss.item()
torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/me/train.py", line 60, in <module>
    with torch.cuda.graph(graph):
  File "/env/lib/python3.12/site-packages/torch/cuda/graphs.py", line 268, in __exit__
    self.cuda_graph.capture_end()
torch.AcceleratorError: CUDA error: operation failed due to a previous error during capture
"""


def _texts(text: str) -> list[str]:
    return [line.text.strip() for line in log.read(text).lines]


@pytest.mark.parametrize(
    "line",
    [
        "[rank0]: RuntimeError: boom",
        "\x1b[31m[rank12]: RuntimeError: boom\x1b[0m",
        "3: RuntimeError: boom",
        "[default1]:RuntimeError: boom",
        "[2026-11-21 10:00:00,123] RuntimeError: boom",
        "2026-11-21T10:00:00.123Z RuntimeError: boom",
        "ERROR 11-21 10:00:00 [core.py:396] RuntimeError: boom",
        "(EngineCore_0 pid=71) ERROR 11-21 10:00:00 [core.py:396] RuntimeError: boom",
        "(RayWorkerWrapper pid=1234, ip=10.0.0.1) RuntimeError: boom",
        "E   RuntimeError: boom",
        " 12%|#4   | 12/100 [00:10<01:20,  1.10it/s]RuntimeError: boom",
        "loading 10%\rloading 90%\rRuntimeError: boom",
        "RuntimeError: boom\r",
    ],
)
def test_what_stands_before_a_message_is_taken_off(line: str) -> None:
    assert _texts(line) == ["RuntimeError: boom"]


def test_what_only_looks_like_a_prefix_stays() -> None:
    for line in (
        "12 kernels below the minimum",
        "[E ProcessGroupNCCL.cpp:830] watchdog",
        "2D input",
        "(a) first",
        "E501 it is",
    ):
        assert _texts(line) == [line]


def test_the_exception_that_was_raised_first_has_depth_0() -> None:
    depths = {line.text.strip(): line.depth for line in log.read(CHAINED).lines}
    assert depths["torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing"] == 0
    assert depths["torch.AcceleratorError: CUDA error: operation failed due to a previous error during capture"] == 1


def test_a_new_traceback_that_is_not_chained_starts_again() -> None:
    parsed = log.read(CHAINED + "\nTraceback (most recent call last):\nValueError: another one\n")
    assert parsed.lines[-1].depth == 0


def test_the_users_frame_nearest_to_the_error_is_named() -> None:
    frame = log.read(CHAINED).own_frame()
    assert frame
    assert (frame.path, frame.line, frame.function) == ("/home/me/train.py", 41, "step")


def test_frames_of_libraries_are_not_the_users() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/venv/lib/python3.12/site-packages/vllm/x.py", line 3, in run\n    go()\n'
    )
    assert log.read(text).own_frame() is None


def test_ranks_that_print_at_the_same_time_are_told_apart() -> None:
    torn = "\n".join(f"[rank{rank}]: {line}" for line in CHAINED.splitlines() for rank in (0, 1, 2))
    assert log.read(torn).own_frame() == log.read(CHAINED).own_frame()
    assert _texts(torn) == _texts(CHAINED)


def test_numbers_of_lines_are_those_of_the_paste() -> None:
    assert next(line.number for line in log.read(CHAINED).lines if "previous error" in line.text) == 13


def test_repeated_lines_are_kept_once() -> None:
    assert _texts("skipping cudagraphs due to mutated inputs (36 instances)\n" * 5000) == [
        "skipping cudagraphs due to mutated inputs (36 instances)"
    ]


def test_a_log_on_one_line_is_read_as_its_lines() -> None:
    text = "{'log': '" + "x" * 3000 + CHAINED.replace("\n", "\\n") + "'}"
    assert "scale = loss.item()" in _texts(text)


def test_what_is_kept_of_a_huge_log_is_bounded_and_has_both_ends() -> None:
    words = [f"{a}{b}{c}{d}" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh" for d in "abcdefghij"]
    text = "\n".join(f"first\nCUDA error {word} " + word * 20 for word in words) + "\nlast CUDA error of all"
    kept = log.read(text).lines
    assert sum(len(line.text) for line in kept) < 250_000
    assert kept[-1].text == "last CUDA error of all"


@pytest.mark.parametrize("data", [b"", b" \n\t ", b"\0\0\0", b"\xef\xbb\xbf"])
def test_an_empty_log_is_refused_with_what_to_do(data: bytes) -> None:
    with pytest.raises(SkillError, match="the log is empty: give"):
        log.decoded(data)


def test_binary_data_is_refused() -> None:
    with pytest.raises(SkillError, match="binary data"):
        log.decoded(bytes(range(256)) * 40)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_of_a_log(encoding: str) -> None:
    assert log.decoded("Fehler größer: stream is capturing".encode(encoding)) == "Fehler größer: stream is capturing"


def test_a_million_blank_lines_are_nothing() -> None:
    assert [line.text for line in log.read("\n" * 1_000_000 + "CUDA error\n" + "\n" * 1_000_000).lines] == ["CUDA error"]


def test_a_few_bad_bytes_and_nuls_do_no_harm() -> None:
    text = log.decoded(b"CUDA error: \xff\xfe operation\0 not permitted\n" * 3)
    assert _texts(text)[0].startswith("CUDA error: ")


SOURCE = """import torch

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step(x).item()  # RuntimeError: CUDA error: operation not permitted when stream is capturing
"""
NOT_PERMITTED = "RuntimeError: CUDA error: operation not permitted when stream is capturing"
TRACEBACK = ["\x1b[0;31mAcceleratorError\x1b[0m   Traceback (most recent call last)", "----> 3 step(x).item()", NOT_PERMITTED]


def _notebook(*cells: list[dict[str, object]]) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": SOURCE, "outputs": outputs} for outputs in cells]}, indent=1)


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (SOURCE.partition("  #")[0], "", "looks like Python source, not a log: `skill check FILE` reads source"),
        (SOURCE, "my train.py", "`skill check 'my train.py'` reads source"),
        ("print 'no Python 3'\n", "old.py", "looks like Python source"),
        (
            _notebook([], [{"output_type": "display_data", "data": {"image/png": "iVBO"}}]),
            "a.ipynb",
            "notebook without outputs",
        ),
    ],
    ids=["pasted", "a file", "a file that is not read as Python", "a notebook"],
)
def test_a_program_is_no_log(text: str, name: str, told: str) -> None:
    with pytest.raises(SkillError, match=re.escape(told)):
        log.decoded(text.encode(), name)


@pytest.mark.parametrize(
    "text",
    [
        SOURCE,  # a comment quotes what the line raised
        "with torch.cuda.graph(g): loss = x.item()",  # one line of code is a symptom
        "lr = 0.1\nbatch: 32\nCUDA_GRAPHS = False\n",  # settings that a program prints parse as Python
        f'{SOURCE}"""\nTraceback (most recent call last):\n  File "train.py", line 5, in <module>\n{NOT_PERMITTED}\n"""\n',
        '{"cells": 3}',
        '{"cells": [{"cell_type": "code"}], "metadata": {"kernelspec": {"language": "julia"}}}',
    ],
)
def test_what_only_looks_like_a_program_is_read_as_a_log(text: str) -> None:
    assert log.decoded(text.encode()) == text


def test_of_a_notebook_the_outputs_are_read() -> None:
    printed: list[dict[str, object]] = [
        {"output_type": "stream", "text": ["warm-up\n", "done"]},
        {"output_type": "execute_result", "data": {"text/plain": "3"}},
    ]
    error = {"output_type": "error", "ename": "AcceleratorError", "evalue": NOT_PERMITTED}
    text = _notebook([], printed, [{**error, "traceback": TRACEBACK}], [{**error, "traceback": []}])
    read = log.read(log.decoded(text.encode(), "a.ipynb"))
    places = {line.text: read.where(place) for place, line in enumerate(read.lines)}
    assert places["done"] == "cell 2, line 2 of its output"
    assert places["3"] == "cell 2, line 3 of its output"
    assert places[NOT_PERMITTED] == "cell 3, line 3 of its output"
    assert places[f"AcceleratorError: {NOT_PERMITTED}"] == "cell 4, line 1 of its output"
    assert read.raised
    assert "import torch" not in places
