"""The evidence on strange targets is of the cases and programs that are here, and nothing in it went wrong."""

from __future__ import annotations

from captures import cases, digest, kept


def test_every_case_ran_on_a_gpu_as_it_must() -> None:
    rows, known = kept(), {case["name"]: case for case in cases()}
    assert sorted(known.keys() - rows.keys()) == [], "never run: python tests/captures.py run NAME"
    changed = [name for name, case in known.items() if rows[name]["digest"] != digest(case)]
    assert changed == [], "changed since they were run: python tests/captures.py run NAME"
    assert [row for row in rows.values() if row["wrong"]] == []


def test_a_case_is_bound_to_the_programs_that_it_names_and_to_what_they_import() -> None:
    known = {case["name"]: case for case in cases()}
    live = known["live-package"]
    assert digest(live) != digest({**live, "line": 1})
    assert digest(live) == digest({**live, "why": "another reason"})
