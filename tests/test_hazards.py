"""Each hazard of the static check is written down, has a program, is found where that marks it, and was seen on a GPU."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.check import Options, check_paths
from cudagraph_skill.check.hazards import hazard, table
from cudagraph_skill.corpus import load, lookup
from cudagraph_skill.text import Steps
from replayed import EVIDENCE, ROOT, digest, functions, programs, seen

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.check.findings import Finding
    from cudagraph_skill.corpus.index import Index
    from cudagraph_skill.corpus.section import Section

STEPS = Steps(read=str, turn=str, ask=str, explain=str)
MAX_CHARACTERS, MAX_FIX = 1500, 170  # of a section; of a fix, which stands under every finding
PARTS = ("Severity", "Finds", "Why", "Fix", "Not flagged", "Proof")
SPARED = {"CG505", "CG107"}  # infos that many a script of another hazard has
FIXTURES = pytest.mark.parametrize(("id_", "path"), programs().items(), ids=programs())


@pytest.fixture(scope="module")
def written(sections: list[Section]) -> dict[str, Section]:
    """Return the sections of references/hazards.md by id."""
    return {section.headings[-1].partition(" ")[0]: section for section in sections if load.is_hazard(section)}


@pytest.fixture(scope="module")
def evidence() -> dict[str, dict[str, Any]]:
    runs = json.loads(EVIDENCE.read_text()) if EVIDENCE.exists() else []
    assert all(run["gpus"] and run["torch"] and run["cuda"] and run["date"] and run["command"] for run in runs)
    return {row["id"]: row for run in runs for row in run["results"]}


def _in_code() -> set[str]:
    """Return the ids that occur as strings in the check's code: those that it can report."""
    ids = set()
    for path in (ROOT / "tools/cudagraph_skill/check").rglob("*.py"):
        strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        ids |= {text for text in strings if isinstance(text, str) and re.fullmatch(r"CG\d{3}", text)}
    return ids


@cache
def _marks(path: Path) -> frozenset[tuple[int, str]]:
    """Return the lines of a program that are marked `# CG201`, with the ids of the mark."""
    marks = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        comment = re.search(r"# (CG\d{3}(?: CG\d{3})*)$", line)
        marks |= {(number, id_) for id_ in (comment[1].split() if comment else ())}
    return frozenset(marks)


def _found(target: str) -> list[Finding]:
    return check_paths([target], Options()).findings


def test_references_programs_and_code_have_the_same_hazards(written: dict[str, Section]) -> None:
    places = {"references/hazards.md": set(written), "tests/hazards/": set(programs()), "check/*.py": _in_code()}
    known = set().union(*places.values())
    assert {place: sorted(known - ids) for place, ids in places.items() if known - ids} == {}
    assert set(table()) == set(written)
    assert len(known) >= 100


def test_ids_are_unique_and_in_order(sections: list[Section]) -> None:
    ids = [section.headings[-1].partition(" ")[0] for section in sections if load.is_hazard(section)]
    assert ids == sorted(set(ids))


def test_a_heading_is_an_id_and_a_name_that_no_other_has(written: dict[str, Section]) -> None:
    names = [section.headings[-1] for section in written.values()]
    assert [name for name in names if not re.fullmatch(r"CG\d{3} [a-z0-9]+(-[a-z0-9]+)*", name)] == []
    assert len({name.partition(" ")[2] for name in names}) == len(names)


def test_sections_have_the_parts_of_the_form_in_order(written: dict[str, Section]) -> None:
    wrong = {}
    for id_, section in written.items():
        parts = [part for part in re.findall(r"^- \*\*(\w[\w ]*)\*\*", section.text, re.MULTILINE) if part in PARTS]
        if parts != list(PARTS):
            wrong[id_] = parts
    assert wrong == {}
    assert [
        id_ for id_, section in written.items() if not re.search(r"^- \*\*Severity\*\* (error|warning|info)\b", section.text)
    ] == []


def test_sections_and_fixes_are_short(written: dict[str, Section]) -> None:
    assert [(id_, len(section.text)) for id_, section in written.items() if len(section.text) > MAX_CHARACTERS] == []
    assert [(id_, len(hazard(id_).fix)) for id_ in written if len(hazard(id_).fix) > MAX_FIX] == []


def test_the_proof_of_a_section_is_its_program(written: dict[str, Section]) -> None:
    wrong = {}
    for id_, section in written.items():
        number, _, name = section.headings[-1].lower().partition(" ")
        wanted = f"`tests/hazards/{number}_{name.replace('-', '_')}.py`"
        proof = section.text.partition("- **Proof**")[2]
        if wanted not in proof or not (ROOT / wanted.strip("`")).is_file():
            wrong[id_] = wanted
    assert wrong == {}


@FIXTURES
def test_what_is_marked_is_found_and_nothing_else(id_: str, path: Path) -> None:
    names = functions(path)
    reported = {
        (finding.line, finding.id)
        for name in names
        if not name.startswith("capture_")
        for finding in _found(f"{path}:{name}")
        if finding.id == id_ or hazard(finding.id).severity != "info"
    }
    if any(name.startswith("capture_") for name in names):
        reported |= {
            (finding.line, finding.id) for finding in _found(str(path)) if finding.id == id_ or finding.id not in SPARED
        }
    assert {"found, not marked": sorted(reported - _marks(path)), "marked, not found": sorted(_marks(path) - reported)} == {
        "found, not marked": [],
        "marked, not found": [],
    }


@FIXTURES
def test_a_program_marks_its_hazard_and_has_as_many_functions_that_are_not_flagged(id_: str, path: Path) -> None:
    names = [name.removeprefix("capture_") for name in functions(path)]
    bad, good = (sum(name.startswith(f"{kind}_") for name in names) for kind in ("bad", "good"))
    assert 0 < bad <= good
    assert id_ in {mark for _, mark in _marks(path)}
    assert not re.search(r"#[^#\n]*CG\d{3}(?![^\n]*CG\d{3}$)[^\n]+$", path.read_text(), re.MULTILINE), "a mark ends its line"


@FIXTURES
def test_a_gpu_showed_what_the_hazard_says(id_: str, path: Path, evidence: dict[str, dict[str, Any]]) -> None:
    assert id_ in evidence, f"never run: python tests/replayed.py run {id_}"
    assert evidence[id_]["digest"] == digest(path), f"changed since it was run: python tests/replayed.py run {id_}"
    assert set(evidence[id_]["functions"]) == set(functions(path))
    assert seen(hazard(id_).severity, evidence[id_]) == []


def test_no_evidence_names_a_place_of_the_machine_it_ran_on() -> None:
    assert not EVIDENCE.exists() or not re.search(r"/(home|root|work|workspace)/", EVIDENCE.read_text())


def test_each_hazard_is_explained_by_its_id_and_its_name(sections: list[Section], written: dict[str, Section]) -> None:
    for id_, section in written.items():
        name = section.headings[-1].partition(" ")[2]
        for called in (id_, id_.lower(), f"{id_.lower()}-{name}", section.headings[-1]):
            assert lookup.explain(sections, called, STEPS) == [section]
        explained = lookup.explain(sections, name, STEPS)
        assert section in explained


@pytest.mark.parametrize(
    ("typed", "near"),
    [("CG2011", "CG201"), ("CG299", "CG2"), ("device-value-raed", "device-value-read"), ("cg201-device", "CG201")],
)
def test_a_name_that_is_nearly_right_is_told(typed: str, near: str, sections: list[Section]) -> None:
    answer = lookup.explain(sections, typed, STEPS)
    assert isinstance(answer, lookup.Missing)
    assert f"there is no error, cause or hazard `{typed}`; nearest: " in answer
    assert near in answer


def test_search_finds_a_hazard_by_its_id_its_name_and_its_questions(index: Index, written: dict[str, Section]) -> None:
    wrong, elsewhere = [], []
    for id_, section in written.items():
        for asked in (id_, section.headings[-1]):
            hits = index.search(asked, limit=1).hits
            wrong += [] if hits and hits[0].section == section else [asked]
        for question in section.asks[:1]:
            hits = index.search(question, limit=3).hits
            elsewhere += [] if section in [hit.section for hit in hits] else [question]
    assert wrong == []
    assert len(elsewhere) <= len(written) // 20, elsewhere  # a question may be an error's own text, which has entries too
