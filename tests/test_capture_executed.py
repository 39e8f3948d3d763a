"""Which lines a call passed over, and what that leaves of the findings of the static check."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture import reports, session
from cudagraph_skill.capture.guest import checks, executed, operations, stack, why_wrong
from cudagraph_skill.capture.request import Request
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
    request = Request(f"{path}:step", sys.executable, str(tmp_path))
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


# Where two calls part

SCHEDULE = """
    import torch

    slow = torch.zeros(2)
    calls = [0]


    def follow(x):
        calls[0] += 1
        if calls[0] % 2:  # decides
            return
        rate = 0.5
        for part in (slow,):
            part.lerp_(x, rate)


    def step(x):
        y = x * 2
        if calls[0] % 3 == 0:
            note = str(calls[0])
        follow(y)
        return y + 1
"""


def _logs(program: Any, calls: int) -> why_wrong.Logs:
    """Record calls; the first stands for the captured one."""
    logs, trails = [], []
    for _ in range(calls):
        lines = executed.Lines()
        with lines.followed() as trail, operations.Recorder(trail=trail) as recorder:
            program.step(torch.ones(2))
        logs.append([each._replace(host=False, captured=True) for each in recorder.log])
        trails.append(trail)
    return why_wrong.Logs([logs[0], logs[-1]], logs[0], [set(), set()], (trails[-1], trails[0]))


@pytest.mark.parametrize("calls", [2, 4, 6])
def test_the_branch_is_where_the_lines_of_two_calls_part(tmp_path: Path, calls: int) -> None:
    logs = _logs(imported(tmp_path / "program.py", SCHEDULE), calls)
    empty: dict[str, Any] = dict.fromkeys(checks.Observations._fields)
    seen = checks.Observations(**{**empty, "changing": {}, "moved": set()})
    [cause] = why_wrong.explain(logs, seen)
    assert cause.category == "frozen-branch"
    assert cause.place is not None
    assert cause.place.line == line_of(tmp_path / "program.py", "# decides")


def test_trails_part_after_the_last_line_that_they_share() -> None:
    def trail(*lines: int) -> executed.Trail:
        return [stack.Place("a.py", line, "step") for line in lines]

    def parted(first: executed.Trail, second: executed.Trail) -> int | None:
        place = executed.parting(first, second)
        return place.line if place else None

    assert parted(trail(1, 2, 3), trail(1, 2, 3)) is None
    assert parted(trail(1, 2, 3), trail(1, 2, 4)) == 2
    assert parted(trail(1, 2, 9, 3, 5), trail(1, 2, 3, 6)) == 3  # 9 is a branch that both come out of
    assert parted(trail(1), trail(2)) is None
    assert parted(trail(1, 2, 8, 9), trail(1, 3, 8, 9)) == 1  # both ways call one helper
    assert parted([], trail(2)) is None
