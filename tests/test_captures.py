"""The evidence on strange targets is of the cases and programs that are here, and nothing in it went wrong."""

from __future__ import annotations

import json

from captures import EVIDENCE, cases, digest


def test_every_case_ran_on_a_gpu_as_it_must() -> None:
    kept = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    assert kept["digest"] == digest(), f"changed since it was run: {kept['command']}"
    assert {row["name"] for row in kept["results"]} == {case["name"] for case in cases()}
    assert [row for row in kept["results"] if row["wrong"]] == []
