"""programs.json names public programs and what is expected of them; nothing of them is kept; figures are as they say."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import library
import programs
import programs_data
import pytest

ROOT = Path(programs.__file__).resolve().parent.parent
PROGRAMS = programs.programs()
EACH = pytest.mark.parametrize("program", PROGRAMS, ids=[program["name"] for program in PROGRAMS])
LICENSES = {"MIT", "Apache-2.0", "BSD-3-Clause"}
KEYS = {"name", "repository", "commit", "license", "files", "folder", "needs", "prepare", "command", "environment", "cases"}


def test_there_are_many_programs_of_many_repositories() -> None:
    assert len(PROGRAMS) >= 15
    assert len({program["name"] for program in PROGRAMS}) == len(PROGRAMS)
    assert len({program["repository"] for program in PROGRAMS}) >= 12
    assert len(programs.expected()) == sum(len(program["cases"]) for program in PROGRAMS) >= 45


@EACH
def test_a_program_is_named_by_repository_and_commit(program: dict[str, Any]) -> None:
    assert set(program) == KEYS
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", program["repository"])
    assert re.fullmatch(r"[0-9a-f]{40}", program["commit"])
    assert program["license"] in LICENSES


@EACH
def test_the_command_runs_a_file_that_is_carried(program: dict[str, Any]) -> None:
    script = Path(program["folder"], program["command"][1]).as_posix()
    assert program["command"][0] == "python"
    assert script in program["files"]
    assert not any(Path(path).is_absolute() or ".." in Path(path).parts for path in program["files"])


@EACH
def test_nothing_of_a_program_is_kept_here(program: dict[str, Any]) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    assert not [path for path in program["files"] for kept in listed if kept.endswith(f"/{path}") and "programs" in kept]
    assert not [path for path in program["files"] if "/" in path and path in listed]


@EACH
def test_its_data_are_written_by_a_function_of_ours(program: dict[str, Any]) -> None:
    if program["prepare"] is None:
        return
    function = getattr(programs_data, program["prepare"])
    assert list(inspect.signature(function).parameters) == ["root"]


@EACH
def test_a_case_says_what_is_expected_and_why(program: dict[str, Any]) -> None:
    assert len(program["cases"]) == 3
    for case in program["cases"]:
        assert set(case) == {"target", "expect", "line", "why"}
        assert case["expect"]
        assert set(case["expect"]) <= set(programs.VERDICTS)
        assert case["why"].endswith(".")
        assert case["line"] is None or re.fullmatch(r"\w+\.py:\d+", case["line"])
        assert case["line"] is None or set(case["expect"]) & {"capture_error", "silent_wrong"}


@EACH
def test_a_line_is_in_a_file_of_the_program(program: dict[str, Any]) -> None:
    names = {Path(path).name for path in program["files"]}
    assert {case["line"].partition(":")[0] for case in program["cases"] if case["line"]} <= names


def test_repositories_are_brought_at_their_commits(tmp_path: Path) -> None:
    commands = programs.ways_to_bring(tmp_path)
    assert len(commands) == len({program["repository"] for program in PROGRAMS})
    assert all(re.search(r"checkout [0-9a-f]{40}$", command) for command in commands)
    programs.place(tmp_path, PROGRAMS[0]).mkdir()
    assert len(programs.ways_to_bring(tmp_path)) == len(commands) - 1


def test_one_repository_has_one_commit() -> None:
    commits = {(program["repository"], program["commit"]) for program in PROGRAMS}
    assert len(commits) == len({program["repository"] for program in PROGRAMS})


def _evidence(*given: tuple[str, str | None, str, str]) -> list[dict[str, Any]]:
    """Return evidence for the first cases: label and line of the truth, verdict and first line of the tool."""
    rows = list(zip(programs.expected(), given, strict=False))
    truth = [{"id": name, "label": row[0], "line": row[1], "deepest": "", "said": ""} for name, row in rows]
    verdicts = [
        {"id": name, "verdict": row[2], "lines": [[row[3], "CG1", True]], "said": "", "seconds": 2} for name, row in rows
    ]
    return [{"what": "truth", "rows": truth}, {"what": "run", "rows": verdicts}]


def test_figures_count_verdicts_against_truth_and_expectation() -> None:
    first, second, third = list(programs.expected().values())[:3]
    assert [first["expect"], second["expect"], third["expect"]] == [["safe"], ["safe"], ["capture_error"]]
    evidence = _evidence(
        ("safe", None, "safe", ""),
        ("safe", None, "silent_wrong", "main.py:9"),
        ("capture_error", third["line"], "capture_error", "main.py:1"),
        ("few", None, "misuse", ""),
        ("unclear", None, "safe", ""),
    )
    results = programs.figures(evidence)
    assert (results["cases"], results["with a truth"], results["as in truth"]) == (5, 4, 75.0)
    assert (results["false alarms"], results["missed"], results["failing line first"]) == (50.0, 0.0, 0.0)
    wrong = [line.partition(":")[0] for line in programs.misses(evidence)]
    assert wrong[:2] == [list(programs.expected())[place] for place in (1, 2)]


def test_keep_replaces_rows_of_the_same_case(tmp_path: Path) -> None:
    for verdict in ("safe", "misuse"):
        file = tmp_path / f"{verdict}.jsonl"
        rows = [{"what": "run", "date": "now"}, {"id": "a", "verdict": verdict}]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        library.keep([str(file)], tmp_path / "programs.json")
    kept = json.loads((tmp_path / "programs.json").read_text(encoding="utf-8"))
    assert [row["verdict"] for part in kept for row in part["rows"]] == ["misuse"]
