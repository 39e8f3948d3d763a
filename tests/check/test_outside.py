"""Programs whose model comes from outside the file: each host read of its results is found, and its correction is not reported.

programs/outside.txt has them one after the other; behind `#!` stands what the line would have to be.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_text
from cudagraph_skill.check.hazards import hazard
from cudagraph_skill.check.output import verdict

if TYPE_CHECKING:
    from cudagraph_skill.check.findings import Report, Unread

TEXT = (Path(__file__).parent / "programs/outside.txt").read_text()
PROGRAMS = dict(part.split("\n", 1) for part in TEXT.removeprefix("== ").split("\n== "))


def broken(program: str) -> tuple[str, set[int]]:
    """Return a program as it stands, and its lines that read on the host."""
    lines = program.split("\n")
    marked = {number for number, line in enumerate(lines, 1) if "#!" in line}
    return "\n".join(line.partition("  #!")[0] for line in lines), marked


def corrected(program: str) -> str:
    lines = []
    for line in program.split("\n"):
        before, mark, after = line.partition("  #! ")
        lines.append(before[: len(before) - len(before.lstrip())] + after if mark else line)
    return "\n".join(lines)


def serious(report: Report) -> set[int]:
    return {finding.line for finding in report.findings if hazard(finding.id).severity != "info"}


def _cut(report: Report) -> list[Unread]:
    """Return captured code that was not read for another reason than that a model comes from elsewhere."""
    return [part for part in report.unread if not part.reason.endswith("whose code was not found")]


def test_there_are_ten() -> None:
    assert len(PROGRAMS) == 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_host_read_is_found(name: str) -> None:
    text, marked = broken(PROGRAMS[name])
    report = check_text(text, "program.py", None, Options())
    assert not _cut(report)
    assert serious(report) == marked


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corrected_program_is_clean(name: str) -> None:
    report = check_text(corrected(PROGRAMS[name]), "program.py", None, Options())
    assert (serious(report), _cut(report)) == (set(), [])
    assert report.regions


def test_the_models_are_named_whose_code_is_elsewhere() -> None:
    reports = {name: check_text(corrected(text), "program.py", None, Options()) for name, text in PROGRAMS.items()}
    assert [name for name, report in reports.items() if verdict(report) != "partial"] == []
