"""The evidence on the command and the server on a GPU is of the cases and programs here, and nothing in it went wrong."""

from __future__ import annotations

import json

from served import CASES, EVIDENCE, VERDICTS, digest


def test_every_case_went_on_a_gpu_as_it_must() -> None:
    kept = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    assert kept["digest"] == digest(), f"changed since it was run: {kept['command']}"
    assert len(kept["results"]) == 2 * len(CASES) + len(VERDICTS) + 1
    assert [row["name"] for row in kept["results"] if row["wrong"]] == []
