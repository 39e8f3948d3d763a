"""The seeded bugs of benchmarks/mutants can be applied with their effect scaled down, and each makes a program of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import verdicts

BASES = sorted((Path(verdicts.__file__).parent / "mutants").glob("*.py"))
BUGS = [(path, bug) for path in BASES for bug in verdicts.bugs(path)]
SCALED = [pytest.param(path, bug, id=f"{path.stem} {bug['name']}") for path, bug in BUGS if "small" in bug]


def test_nearly_every_bug_is_scaled_down_and_the_others_say_why_not() -> None:
    assert len(SCALED) >= 60
    for _, bug in BUGS:
        assert ("small" in bug) != bool(bug.get("unscaled")), bug["name"]


@pytest.mark.parametrize(("path", "bug"), SCALED)
def test_the_scaled_programs_are_python_and_differ_from_each_other_and_from_the_unscaled(
    path: Path, bug: dict[str, Any]
) -> None:
    plain = path.read_text(encoding="utf-8")
    base = verdicts.mutated(plain, bug["small"], bug["name"])
    texts = [plain, verdicts.mutated(plain, bug["edits"], bug["name"]), base, verdicts.mutated(base, bug["edits"], bug["name"])]
    assert len(set(texts)) == 4
    for text in texts:
        compile(text, path.name, "exec")


def test_a_scaled_bug_changes_the_same_lines_as_the_bug_itself(tmp_path: Path) -> None:
    listed = {program.id: program for program in [*verdicts.mutants(tmp_path), *verdicts.small(tmp_path)]}
    for program in listed.values():
        lines = Path(program.target).read_text(encoding="utf-8").splitlines()
        assert (program.truth == "safe") == (not program.lines)
        if program.id.endswith("__small"):
            plain = listed[program.id.removesuffix("__small")]
            there = Path(plain.target).read_text(encoding="utf-8").splitlines()
            assert [lines[n - 1] for n in program.lines] == [there[n - 1] for n in plain.lines], program.id


def test_a_scaled_base_is_listed_once_and_is_safe(tmp_path: Path) -> None:
    listed = verdicts.small(tmp_path)
    bases = [program for program in listed if program.id.endswith("__base")]
    assert len({program.digest for program in bases}) == len(bases)
    assert {program.truth for program in bases} == {"safe"}
    assert {program.truth for program in listed if program not in bases} == {"silent_wrong"}
    assert len({program.id for program in listed}) == len(listed) == len(bases) + len(SCALED)
