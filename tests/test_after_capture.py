"""The programs past the graph: each has the interface, its evidence is of its text, and what is out of bounds is said."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from user_files import module_of

ROOT = Path(__file__).resolve().parent.parent
SUITE = module_of(ROOT / "benchmarks" / "after_capture.py")


def row(**changed: Any) -> dict[str, Any]:
    times = {"eager": [900.0, 890.0, 910.0], "plain": [300.0, 299.0, 301.0], "after": [150.0, 149.0, 151.0]}
    busy = {way: {"us": 100.0, "nodes": 10.0} for way in SUITE.WAYS}
    known = {"id": "one", "digest": "0", "us": times, "busy": busy, "compared": {"off": 0.1, "agrees": True}}
    return {**known, "floor": {"us": 100.0}, **changed}


@pytest.mark.parametrize("path", SUITE.programs().values(), ids=lambda path: path.stem)
def test_a_program_has_the_interface_and_is_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in SUITE.INTERFACE:
        arguments = functions[name].args
        assert len(arguments.args) == len(arguments.defaults), f"{name} is called without arguments"
        assert not any(argument for argument in arguments.kwonlyargs)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= 360


@pytest.mark.parametrize("path", SUITE.programs().values(), ids=lambda path: path.stem)
def test_the_techniques_that_a_program_names_are_sections(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    headings = re.findall(r"^### (.+)$", (ROOT / "references" / "after-capture.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r'^- "([^"]+)"', said, re.MULTILINE)
    assert named
    assert [name for name in named if name not in headings] == []


def test_a_good_row_is_not_complained_of() -> None:
    assert not list(SUITE.wrong(row()))
    assert "| 2.00x | 100 | 1.50 |" in SUITE.line(row())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"us": {**row()["us"], "after": [210.0, 1.0, 2.0]}, "floor": {"us": 110.0}}, "1.43 times as fast as plain"),
        ({"floor": {"us": 70.0}}, "2.14 times the floor"),
        ({"compared": {"off": 0.1, "agrees": False}}, "not true: agrees"),
        ({"compared": {"off": 0.1}}, "nothing says whether"),
        ({"failed": "Error: no memory"}, "no memory"),
    ],
)
def test_what_is_out_of_its_bound_is_said(changed: dict[str, Any], said: str) -> None:
    [found] = SUITE.wrong(row(**changed))
    assert said in found
    assert SUITE.line(row(**changed)).startswith("| one |")


def test_evidence_counts_for_exactly_the_text_that_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.py").write_text("a = 1\n")
    monkeypatch.setattr(SUITE, "PROGRAMS", tmp_path)
    current = row(digest=SUITE.digest(tmp_path / "one.py"))
    assert SUITE.missing([current]) == []
    assert SUITE.missing([{**current, "failed": "it ended"}]) == ["one"]
    (tmp_path / "one.py").write_text("a = 2\n")
    assert SUITE.missing([current]) == ["one"]


def test_the_newest_row_of_a_program_is_kept_with_its_machine(tmp_path: Path) -> None:
    evidence = tmp_path / "kept.json"
    for number, rows in enumerate([[row(), row(id="two")], [row(digest="1")]]):
        file = tmp_path / f"{number}.jsonl"
        file.write_text("".join(json.dumps(part) + "\n" for part in [{"gpus": [str(number)]}, *rows]))
        SUITE.keep([str(file)], evidence)
    assert {kept["id"]: kept["digest"] for kept in SUITE.rows(evidence)} == {"one": "1", "two": "0"}
    assert [run["gpus"] for run in json.loads(evidence.read_text())] == [["0"], ["1"]]


def test_rounds_are_told_by_their_middle_and_ends() -> None:
    assert SUITE.spread([float(value) for value in range(11)]) == [5.0, 1.0, 9.0]


def test_what_is_missing_from_the_evidence_is_out_of_bounds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SUITE, "programs", lambda: {"one": ROOT / "pyproject.toml"})
    assert SUITE._shown([row()], check=True) == 1
    assert "not run as it is now: one" in capsys.readouterr().out
    assert SUITE._shown([row(digest=SUITE.digest(ROOT / "pyproject.toml"))], check=True) == 0
