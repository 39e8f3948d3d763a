"""What the conformance suite and the Inspector said is of today's server, complete and without a failure; no network here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import conformance
import pytest
from cudagraph_skill_server.definitions import OUTPUTS

if TYPE_CHECKING:
    from pathlib import Path

KEPT: dict[str, Any] = json.loads(conformance.EVIDENCE.read_text(encoding="utf-8"))
NEEDS_GPU = {"run_check", "run_bench"}  # without one they answer with the sentence that says so
RERUN = "changed since the suite ran: python tests/conformance.py"


def test_the_evidence_is_of_this_server(tmp_path: Path) -> None:
    assert KEPT["server"] == conformance.offered(tmp_path), RERUN
    assert {KEPT["versions"][name] for name in conformance.PACKAGES} == set(conformance.PACKAGES.values()), RERUN


def test_the_evidence_names_no_place_of_a_machine() -> None:
    whole = conformance.EVIDENCE.read_text(encoding="utf-8")
    assert not any(place in whole for place in ("/tmp", "/root", "/home/", "127.0.0.1"))


@pytest.mark.parametrize(("revision", "scenarios"), [("2025-11-25", 30), ("2026-07-28", 37)])
def test_every_required_scenario_passed(revision: str, scenarios: int) -> None:
    required = KEPT["revisions"][revision]["required"]
    assert len(required) == scenarios
    assert {name: statuses for name, statuses in required.items() if not _passed(statuses)} == {}


def test_every_scenario_of_the_skills_extension_passed() -> None:
    assert set(KEPT["skills"]) == {f"{conformance.EXTENSION}{part}" for part in ("directory", "enumeration", "manifest")}
    assert all(set(statuses) == {"SUCCESS"} for statuses in KEPT["skills"].values())  # no warning, and nothing left out


def _passed(statuses: dict[str, int]) -> bool:
    return statuses.get("SUCCESS", 0) > 0 and set(statuses) <= {"SUCCESS", "INFO"}


@pytest.mark.parametrize("era", conformance.ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_listed_and_called_every_tool(transport: str, era: str) -> None:
    rows = [row for row in KEPT["inspector"] if (row["transport"], row["era"]) == (transport, era)]
    called = {row["tool"]: row["exit"] for row in rows if row["method"] == "tools/call"}
    assert set(called) == set(OUTPUTS) - (NEEDS_GPU if transport == "http" else set())  # without a folder, they are not offered
    assert {name for name, code in called.items() if code} <= NEEDS_GPU
    for method, options in conformance.READS:
        (row,) = (row for row in rows if (row["method"], row.get("options", [])) == (method, options))
        assert row["exit"] == 0, row


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_verified_the_skill_where_it_was_announced(transport: str) -> None:
    skills = [method for method, _ in conformance.SKILLS]
    rows = [row for row in KEPT["inspector"] if row["transport"] == transport and row["method"] in skills]
    assert len(rows) == 2 * len(skills)
    for row in rows:
        if row["era"] == "legacy":  # whose `initialize` has no place for extensions: this client does not ask then
            assert row["exit"] == 1
            assert "declare" in row["said"]
        else:
            assert row["exit"] == 0
            assert "--verify" not in row["options"] or row["verified"] > 300


def test_every_tool_has_a_call_for_the_inspector() -> None:
    assert set(conformance.ARGUMENTS) == set(OUTPUTS)
