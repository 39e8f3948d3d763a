"""`skill config` follows `source FILE` of a launch script where the file lies beside it, and says so where it does not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.config import examine
from cudagraph_skill.config.correction import correct

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.config.examine import Report

COMMON = """\
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
GRAPH=full_iteration
MODEL_ARGS=(
  --num-layers 4
  --check-for-nan-in-loss-and-grad
  --cuda-graph-impl "$GRAPH"
)
"""
RUN = 'torchrun pretrain_gpt.py "${MODEL_ARGS[@]}" --te-rng-tracker\n'
NAN = "nan-check-in-whole-iteration"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "common.sh").write_text(COMMON)
    return tmp_path / "run.sh"


def _read(script: Path, text: str) -> Report:
    return examine(text, ".sh", ["megatron-core==0.18.2"], {}, 90, script)


def _ids(report: Report) -> set[str]:
    return {violation.id for violation in report.violations}


@pytest.mark.parametrize(
    "line",
    [
        "source conf/common.sh",
        ". ./conf/common.sh",
        'source "$(dirname "$0")/conf/common.sh"',
        "source ${HERE}/conf/common.sh",
        "HERE=conf\nsource $HERE/common.sh",
        "setup() {\n  source conf/common.sh\n}\nsetup",
    ],
)
def test_a_file_beside_the_script_is_followed(script: Path, line: str) -> None:
    report = _read(script, f"{line}\n{RUN}")
    assert NAN in _ids(report)
    assert {violation.line for violation in report.violations} == {line.count("\n") + 2}
    assert report.unread == []


def test_a_file_that_a_sourced_file_sources_is_followed(script: Path) -> None:
    (script.parent / "first.sh").write_text("source conf/common.sh\nMORE=1\n")
    assert NAN in _ids(_read(script, f"source first.sh\n{RUN}"))


def test_files_that_source_each_other_end(script: Path) -> None:
    (script.parent / "first.sh").write_text("source first.sh\nsource conf/common.sh\n")
    assert NAN in _ids(_read(script, f"source first.sh\n{RUN}"))


def test_the_script_goes_on_with_the_variables_of_the_file_and_may_change_them(script: Path) -> None:
    flags = "torchrun p.py --te-rng-tracker --cuda-graph-impl $GRAPH --check-for-nan-in-loss-and-grad\n"
    assert NAN in _ids(_read(script, f"GRAPH=local\nsource conf/common.sh\n{flags}"))
    assert NAN not in _ids(_read(script, f"source conf/common.sh\nGRAPH=local\n{flags}"))


def test_a_condition_of_the_file_that_is_not_known_is_taken_both_ways(script: Path) -> None:
    (script.parent / "conf" / "common.sh").write_text(
        f'{COMMON}if [ "$DEBUG" == 1 ]; then MODEL_ARGS=(--cuda-graph-impl none); fi\n'
    )
    (reason,) = _read(script, f"# a comment\nsource conf/common.sh\n{RUN}").unread
    assert reason.startswith(f"line 2: under a condition that is not known it violates {NAN}: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("source missing.sh", "line 1: `source missing.sh` was not read; it may set variables of the environment"),
        ("source ../outside.sh", "line 1: `source ../outside.sh` was not read; it may set variables of the environment"),
        ("source ~/.bashrc", ""),
        ("source venv/bin/activate", ""),
    ],
)
def test_a_file_that_is_not_beside_the_script_is_named(script: Path, line: str, said: str) -> None:
    (script.parent.parent / "outside.sh").write_text(COMMON)
    report = _read(script, f"{line}\npython p.py --cuda-graph-impl local --te-rng-tracker\n")
    assert report.unread == ([said] if said else [])


def test_nothing_is_read_for_a_text_without_a_place() -> None:
    report = examine(f"source conf/common.sh\n{RUN}", ".sh", ["megatron-core==0.18.2"])
    assert _ids(report) == set()
    assert report.unread


def test_a_correction_leaves_what_the_file_sets_alone(script: Path) -> None:
    text = f"source conf/common.sh\n{RUN}"
    read = partial(_read, script)
    corrected = correct(text, read)
    assert corrected.text.startswith("source conf/common.sh\ntorchrun pretrain_gpt.py ")
    assert corrected.left or _ids(read(corrected.text)) == set()


def test_a_value_of_the_file_is_replaced_where_it_is_used(script: Path) -> None:
    text = "source conf/common.sh\ntorchrun p.py --te-rng-tracker --cuda-graph-impl $GRAPH --check-for-nan-in-loss-and-grad\n"
    corrected = correct(text, partial(_read, script))
    assert "--no-check-for-nan-in-loss-and-grad" in corrected.text
    assert corrected.text.startswith("source conf/common.sh\ntorchrun p.py ")
