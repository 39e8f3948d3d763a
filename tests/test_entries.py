"""The error index: every entry and cause is complete, every program belongs to one, what was seen is what is written."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.corpus import load, lookup
from cudagraph_skill.diagnosis import entries
from cudagraph_skill.diagnosis.rank import diagnose
from cudagraph_skill.text import Steps
from raised import EVIDENCE, ROOT, digest, needs, programs, seen

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.corpus.section import Section
    from cudagraph_skill.diagnosis.entries import Entry, Table

UNSEEN = "read in source, not seen"
STEPS = Steps(*[lambda _: "next"] * 4)
# Causes that real reports fall into; they are the names of our output, so none may vanish.
CAUSES = """
sync-op-during-capture dynamic-output-shape-op h2d-copy-pageable host-alloc-in-capture lazy-init-during-capture
autotune-during-capture other-thread-touches-cuda nccl-watchdog legacy-default-stream-dependency ddp-stream-mismatch
unjoined-side-stream wrong-device-capture unregistered-generator rng-state-access-during-capture te-rng-tracker-missing
non-capturable-optimizer optimizer-capturable-state graphed-callable-nothing-to-differentiate static-grad-buffer hook-on-module
autocast-cache autocast-backward-captured host-value-frozen static-input-reassigned freed-static-input pool-sharing-hazard
pool-lifetime graph-memory-not-released graph-alive-at-nccl-destroy gc-during-capture failed-capture-aftermath capture-oom
caching-allocator-disabled expandable-segments-nccl replay-before-capture driver-or-toolkit-too-old overwritten-cudagraph-output
cudagraph-trees-liveness cudagraph-trees-thread pending-backward mutated-inputs-skip cpu-tensor-in-graph dynamic-shape-recapture
rerecord-static-input-moved no-speedup-gpu-bound pp-replay-order fp8-autocast-mismatch fp8-weight-cache-stale
nan-check-with-full-iteration moe-dynamic-routing graph-scope-config recompute-inside-graph cpu-offload
framework-unsupported-combination
"""


@pytest.fixture(scope="module")
def index(sections: list[Section]) -> Table:
    return entries.table(sections)


@pytest.fixture(scope="module")
def written(sections: list[Section]) -> dict[str, Section]:
    """Return the sections of entries and causes by id."""
    return {section.headings[-1]: section for section in sections if load.is_entry(section) or load.is_cause(section)}


@pytest.fixture(scope="module")
def moved(sections: list[Section]) -> dict[str, str]:
    """Return the ids that were merged into another, each with the other."""
    return {section.headings[-1]: load.moved_to(section) for section in sections if load.is_moved(section)}


@pytest.fixture(scope="module")
def evidence() -> dict[str, dict[str, Any]]:
    runs = json.loads(EVIDENCE.read_text())
    assert all(run["gpus"] and run["torch"] and run["cuda"] and run["date"] and run["command"] for run in runs)
    return {row["id"]: row for run in runs for row in run["results"]}


def test_ids_are_unique_and_kebab_case(sections: list[Section]) -> None:
    names = Counter(section.headings[-1] for section in sections if load.is_entry(section) or load.is_cause(section))
    assert [name for name, count in names.items() if count > 1 or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_the_index_is_as_large_as_promised(index: Table) -> None:
    assert len(index.entries) >= 120
    assert set(CAUSES.split()) <= set(index.causes)


def test_every_cause_says_what_tells_it_and_what_to_do(index: Table) -> None:
    for cause in index.causes.values():
        assert cause.what, cause.slug
        assert cause.tell, cause.slug
        assert cause.fix, cause.slug
        assert cause.check or cause.in_source, cause.slug  # empty where the bullet names nothing that a shell runs
        assert len(cause.words) >= 80, cause.slug
        assert sum(points > 0 for points, _ in cause.tells) >= 3, cause.slug


def test_every_entry_lists_causes_that_exist_each_with_evidence_and_a_fix(index: Table) -> None:
    for entry in index.entries:
        assert entry.causes, entry.id
        for possible in entry.causes:
            assert possible.slug in index.causes, (entry.id, possible.slug)
            assert possible.fix, (entry.id, possible.slug)
            assert possible.text, (entry.id, possible.slug)
        if len(entry.causes) > 1:
            assert all("Tell it by" in possible.text for possible in entry.causes), entry.id


def test_every_cause_is_reached_from_an_entry(index: Table) -> None:
    listed = {possible.slug for entry in index.entries for possible in entry.causes}
    assert set(index.causes) - listed == set()


def test_every_entry_has_the_parts_of_the_form(written: dict[str, Section], index: Table) -> None:
    for entry in index.entries:
        for part in ("Seen as", "Raised by", "Causes", "Proof", "Next"):
            assert f"- **{part}**" in written[entry.id].text, (entry.id, part)


def test_phrases_are_long_enough_to_mean_something(index: Table) -> None:
    short = [
        (entry.id, parts)
        for entry in index.entries
        for phrase in entry.phrases
        for parts in phrase.all
        if sum(map(len, parts)) < 12 or not all(parts)
    ]
    assert short == []
    assert [
        cause.slug for cause in index.causes.values() for _, tell in cause.tells for parts in tell.all if not all(parts)
    ] == []


def test_points_are_small_whole_numbers(index: Table) -> None:
    assert {points for cause in index.causes.values() for points, _ in cause.tells} <= {*range(-5, 6)} - {0}


def test_numbers_and_enum_names_lead_to_an_entry(index: Table) -> None:
    codes = {code for entry in index.entries for code in entry.codes}
    names = "Unsupported Invalidated Merge Unmatched Unjoined Isolation Implicit WrongThread"
    assert {str(number) for number in (*range(900, 909), 910, 700)} <= codes
    assert {f"cudaErrorStreamCapture{name}" for name in names.split()} | {"cudaErrorCapturedEvent"} <= codes


def test_programs_and_entries_are_the_same_set(written: dict[str, Section], index: Table, moved: dict[str, str]) -> None:
    named: list[str] = []
    for entry in index.entries:
        proof = written[entry.id].text.partition("- **Proof**")[2].partition("- **")[0]
        assert bool(entry.programs) != (UNSEEN in proof), entry.id
        assert all(moved.get(program, program) == entry.id for program in entry.programs), entry.id
        named += entry.programs
    assert sorted(named) == sorted(programs())


def test_an_old_id_leads_to_the_entry_that_it_was_merged_into(sections: list[Section], moved: dict[str, str]) -> None:
    assert len(moved) >= 2
    for old, new in moved.items():
        found = lookup.explain(sections, old, STEPS)
        assert not isinstance(found, lookup.Missing)
        assert [section.headings[-1] for section in found if load.is_entry(section)] == [new]
    linked = [section for section in sections if load.is_moved(section)]
    assert [section.ref for section in linked if f"#{load.moved_to(section)})" not in section.text] == []


@pytest.mark.parametrize("path", programs().values(), ids=lambda path: path.stem)
def test_a_program_has_a_wrong_and_a_right_way(path: Path) -> None:
    text = path.read_text()
    assert "\ndef fails() -> None:" in text
    assert "\ndef works() -> None:" in text
    assert text.startswith(f'"""{path.stem.replace("_", "-")}: ')


def test_every_program_that_a_gpu_with_torch_2_11_can_run_was_seen(evidence: dict[str, dict[str, Any]]) -> None:
    lacking = [name for name, path in programs().items() if "torch>" not in needs(path) and name not in evidence]
    assert lacking == []
    assert [name for name, row in evidence.items() if row["digest"] != digest(programs()[name])] == []
    assert len(evidence) >= 70


def test_what_was_seen_is_what_the_entry_says(index: Table, evidence: dict[str, dict[str, Any]]) -> None:
    by_program: dict[str, Entry] = {program: entry for entry in index.entries for program in entry.programs}
    assert [name for name, row in evidence.items() if not seen(by_program[name], row)] == []


def test_the_real_output_of_each_failure_leads_to_its_entry(index: Table, evidence: dict[str, dict[str, Any]]) -> None:
    wrong = {}
    for entry in index.entries:
        if entry.id in evidence and entry.phrases:
            generic = all(phrase.kind == "~" for phrase in entry.phrases)  # counts only in a log that speaks of graphs
            output = "# with CUDA graphs\n" * generic + evidence[entry.id]["fails"]["output"]
            diagnoses = diagnose(output, index).diagnoses
            if not diagnoses or diagnoses[0].id != entry.id:
                wrong[entry.id] = [(diagnosis.id, diagnosis.cause) for diagnosis in diagnoses]
    assert wrong == {}


@pytest.mark.slow
def test_the_table_is_kept_and_a_damaged_one_is_made_again(cache: Path) -> None:
    made = entries.open_table(ROOT)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    for damage in (b"", whole[:1000], b"no JSON", b"1", b"[1, 2, 3]", b"[[[1]], {}, []]", b"\xff", b"[" * 10_000):
        kept.write_bytes(damage)
        assert entries.open_table(ROOT) == made
        assert kept.read_bytes() == whole
    assert [path.name for path in cache.iterdir()] == [kept.name]


def test_a_table_of_a_stranger_is_not_read(cache: Path) -> None:
    made = entries.open_table(ROOT)
    (kept,) = cache.iterdir()
    planted = kept.read_bytes().replace(b"capture", b"planted")
    kept.write_bytes(planted)
    kept.chmod(0o666)
    assert entries.open_table(ROOT) == made
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_table_is_made_where_none_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDAGRAPH_SKILL_CACHE", "/proc/nowhere")
    assert len(entries.open_table(ROOT).causes) > 50


def test_no_evidence_names_a_place_of_the_machine_it_ran_on() -> None:
    assert not re.search(r"/(home|root|work|workspace)/", EVIDENCE.read_text())
