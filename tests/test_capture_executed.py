"""Which lines a call passed over, and what that leaves of the findings of the static check."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

from cudagraph_skill.capture import reports, session
from cudagraph_skill.capture.guest import executed
from user_files import imported, line_of

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
    import torch


    def step(x, report=False):
        y = x * 2
        if report:
            print(y.sum().item())
            spell(y)
        for number in range(2):
            y = [part + number for part in x.unbind()]
        try:
            return torch.stack(y)
        except TypeError:
            return y.cpu()


    def spell(y):
        print(y.tolist())
"""


def _passed_over(tmp_path: Path, *args: Any) -> set[str]:
    program = imported(tmp_path / "program.py", PROGRAM)
    lines = executed.Lines()
    with lines.followed():
        program.step(program.torch.ones(2), *args)
    assert sys.gettrace() is None or "coverage" in sys.modules
    [found] = [*lines.passed_over().values()] or [[]]
    text = (tmp_path / "program.py").read_text().splitlines()
    return {text[line - 1].strip() for line in found}


def test_lines_of_a_function_that_ran_are_passed_over_if_they_did_not(tmp_path: Path) -> None:
    skipped = {"print(y.sum().item())", "spell(y)", "except TypeError:", "return y.cpu()"}
    assert _passed_over(tmp_path) == skipped  # of spell, which was not called, nothing is known


def test_lines_that_ran_in_one_of_two_calls_were_tried(tmp_path: Path) -> None:
    assert _passed_over(tmp_path, True) == {"except TypeError:", "return y.cpu()"}


def test_a_tracer_that_is_there_stays(tmp_path: Path) -> None:
    program, lines, called = imported(tmp_path / "program.py", PROGRAM), executed.Lines(), list[str]()
    before = sys.gettrace()
    sys.settrace(lambda frame, *_: called.append(frame.f_code.co_name))
    try:
        with lines.followed():
            program.step(program.torch.ones(2))
    finally:
        sys.settrace(before)
    assert "step" in called
    assert lines.passed_over() == {}


def test_a_finding_at_a_line_that_was_passed_over_is_not_confirmed(tmp_path: Path) -> None:
    imported(tmp_path / "program.py", PROGRAM)
    path = str(tmp_path / "program.py")
    line = line_of(tmp_path / "program.py", "item()")
    request = session.Request(f"{path}:step", sys.executable, str(tmp_path))
    target = {"path": path, "line": line_of(tmp_path / "program.py", "def step"), "name": "step"}
    result = {"verdict": "capture_error", "said": "fails", "target": target, "causes": [], "notes": []}
    found = session.joined_result(request, result, [], {"how": "done"})
    assert line in [finding.line for finding in found.findings]
    found = session.joined_result(request, {**result, "passed_over": {path: [line]}}, [], {"how": "done"})
    assert line not in [finding.line for finding in found.findings]
    assert line in [finding.line for finding in found.unconfirmed]


def test_forged_lines_make_no_result() -> None:
    assert not reports.is_result({"verdict": "safe", "said": "", "passed_over": [1]})
    assert not reports.is_result({"verdict": "safe", "said": "", "passed_over": {"a.py": 1}})
