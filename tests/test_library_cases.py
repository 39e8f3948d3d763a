"""The programs of benchmarks/library are what its runs expect, each unlike the others; and its figures count what they say."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
import sys
from typing import TYPE_CHECKING, Any

import library
import pytest

if TYPE_CHECKING:
    from pathlib import Path

CASES = library.cases()
FILES = pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
MOST_LINES, ALIKE = 48, 0.6
TELLTALE = re.compile(r"\b(captur|replay|cuda.?graph|host|sync|silent|wrong|fail|frozen|safe|unsafe)", re.IGNORECASE)
WITH_TORCH = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="compares tensors")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.Module) -> set[str]:
    """Return the packages that a program imports, by their top name."""
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


def _phrases(path: Path) -> set[tuple[str, ...]]:
    """Return the sequences of five words of a program behind its docstring, without its numbers."""
    words = re.findall(r"[a-z_]+|[^\s\w]", path.read_text(encoding="utf-8").partition('"""\n')[2], re.IGNORECASE)
    return {tuple(words[start : start + 5]) for start in range(len(words))}


@FILES
def test_a_case_is_a_short_program_with_make(path: Path) -> None:
    tree = _tree(path)
    makes = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "make"]
    assert [argument.arg for argument in makes[0].args.args] == ["device"]
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    given = [node.value for node in ast.walk(makes[0]) if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict)]
    keys = [key.value for key in given[-1].keys if isinstance(key, ast.Constant)]
    assert keys == ["fn", "inputs", "kind"]


@FILES
def test_a_case_says_what_it_is_and_not_what_to_expect(path: Path) -> None:
    docstring = ast.get_docstring(_tree(path)) or ""
    assert docstring.endswith(".")
    assert "\n" not in docstring
    assert not TELLTALE.search(docstring)


@FILES
def test_a_case_names_the_packages_it_imports(path: Path) -> None:
    named = {name.replace("-", "_") for name in library.needs(path)}
    assert named
    assert _imported(_tree(path)) - set(sys.stdlib_module_names) - {"torch", "numpy"} == named


def test_numbers_are_unique() -> None:
    numbers = [path.stem.partition("_")[0] for path in CASES]
    assert len(numbers) >= 84
    assert all(re.fullmatch(r"\d{3}", number) for number in numbers)
    assert len(set(numbers)) == len(numbers)


def test_no_two_cases_are_nearly_equal() -> None:
    phrases = {path.stem: _phrases(path) for path in CASES}
    pairs = itertools.combinations(phrases, 2)
    alike = {(a, b): len(phrases[a] & phrases[b]) / len(phrases[a] | phrases[b]) for a, b in pairs}
    assert {pair: share for pair, share in alike.items() if share > ALIKE} == {}


def test_many_libraries_are_used() -> None:
    used = [set(library.needs(path)) for path in CASES]
    assert len(set().union(*used)) >= 12
    assert sum(bool(each & {"diffusers", "timm"}) for each in used) >= 18


def _evidence(*given: tuple[str, int | None, str, int]) -> list[dict[str, Any]]:
    """Return evidence for the first cases: label and line of the truth, verdict and first line of the tool."""
    rows = list(zip(CASES, given, strict=False))
    truth = [{"id": path.stem, "label": row[0], "line": row[1], "deepest": "", "digest": "old"} for path, row in rows]
    verdicts = [
        {"id": path.stem, "verdict": row[2], "lines": [[row[3], "CG1", True]], "said": "", "digest": "old"}
        for path, row in rows
    ]
    return [{"what": "truth", "rows": truth}, {"what": "run", "rows": verdicts}]


def test_figures_count_verdicts_against_the_truth() -> None:
    evidence = _evidence(
        ("safe", None, "safe", 0),
        ("safe", None, "silent_wrong", 9),
        ("silent_wrong", None, "safe", 0),
        ("capture_error", 12, "capture_error", 12),
        ("capture_error", 12, "capture_error", 3),
        ("silent_wrong", None, "not_repeatable", 0),
        ("noisy", None, "not_repeatable", 0),
    )
    results = library.figures(evidence)
    assert {key: results[key] for key in ("cases", "decided", "decided verdicts right", "false alarms", "missed")} == {
        "cases": 7,
        "decided": 83.3,
        "decided verdicts right": 60.0,
        "false alarms": 50.0,
        "missed": 25.0,
    }
    assert results["noisy called so"] == 100.0
    assert results["failing line first"] == 50.0
    assert [line.partition(":")[0] for line in library.misses(evidence)] == [CASES[place].stem for place in (1, 2, 4, 5)]


def test_a_case_of_another_text_is_stale() -> None:
    evidence = _evidence(("safe", None, "safe", 0))
    assert CASES[0].stem in library.stale(evidence)
    for part in evidence:
        part["rows"][0]["digest"] = library.digest(CASES[0])
    assert CASES[0].stem not in library.stale(evidence)


@WITH_TORCH
def test_distances_are_relative_and_see_other_shapes() -> None:
    import torch

    same, empty = {"": torch.ones(4)}, torch.tensor([1.0, float("nan")])
    eager = {"results": [same] * 5, "held": {".a": torch.ones(2), ".b": empty}}
    other = {"results": [same] * 4 + [{"": torch.ones(4) * 1.5}], "held": {".a": torch.ones(3), ".b": empty}}
    assert library.distances(eager, other) == {"result": 0.5, "held.a": float("inf"), "held.b": 0.0}
