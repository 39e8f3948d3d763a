"""Ranges of releases in the text: each has its edges in the packages, and a range that is changed without its fact fails."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

import anchors
import edges
import pytest
from edges import KEPT, Claim, boundary, claims, edges_of, facts, holds, listed, names

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Section

# Packages of which every range has both edges, or is listed.
COMPLETE = ("torch", "MCore", "Bridge", "TE")
# Sections whose sources name no phrase that a check can look up, and that no fact here speaks of. This number may only fall:
# name a phrase, or say `source: advice: …` where the text follows from other sections.
WITHOUT_PHRASE = 405


@pytest.fixture(scope="module")
def found(sections: list[Section]) -> list[Claim]:
    return list(claims(sections))


def _claim(sections: list[Section], line: str) -> list[Claim]:
    section = next(section for section in sections if section.path == "references/api-pytorch.md")
    return list(claims([section._replace(headings=("A heading",), text=line, sources=())]))


def test_the_kept_result_is_of_todays_facts_and_all_of_them_hold() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    wanted = {fact.source.source for fact in facts()}
    again = "run `python tests/edges.py FOLDER`, see its docstring"
    assert wanted - set(kept["facts"]) == set(), again
    assert set(kept["facts"]) - wanted == set(), again
    assert {source: result for source, result in kept["facts"].items() if result != "passed"} == {}
    used = {fact.source.package for fact in facts()}
    assert kept["releases"] == {package: " ".join(anchors.RELEASES[package]) for package in used}
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", kept["date"])


def test_every_range_has_both_edges_or_is_listed(found: list[Claim]) -> None:
    without = Counter(claim.key for claim in found if claim.package in COMPLETE and not holds(claim))
    assert without - listed() == Counter(), "a range without its fact: see tests/edges.py"
    assert listed() - without == Counter(), "remove the `?` lines of what holds, or is gone"


def test_nearly_all_ranges_of_torch_have_both_edges(found: list[Claim]) -> None:
    mine = [claim for claim in found if claim.package == "torch"]
    assert len(mine) >= 600
    assert sum(map(holds, mine)) >= 0.95 * len(mine)


# How many of the moved ranges fail: a line with several ranges has the facts of each. These numbers may only rise.
@pytest.mark.parametrize(("package", "share"), [("torch", 0.9), ("MCore", 0.75), ("Bridge", 0.63), ("TE", 0.93)])
def test_most_ranges_fail_when_they_are_moved_by_one_release(package: str, share: float, found: list[Claim]) -> None:
    minors = list(dict.fromkeys(".".join(release.split(".")[:2]) for release in edges.order(package)))
    mine = [claim for claim in found if claim.package == package and holds(claim)]
    moved = []
    for claim in mine:
        at = minors.index(".".join(claim.edges[0][1].split(".")[:2]))
        others = [minors[number] for number in (at - 1, at + 1) if 0 < number < len(minors) - 1]
        moved += [claim._replace(edges=((claim.edges[0][0], other), *claim.edges[1:])) for other in others]
    assert sum(not holds(claim) for claim in moved) >= share * len(moved)


def test_sections_without_a_phrase_only_become_fewer(found: list[Claim], sections: list[Section]) -> None:
    checked = {claim.section.ref for claim in found if holds(claim)}
    bare = [
        section.ref
        for section in sections
        if section.sources
        and section.ref not in checked
        and not anchors.anchors([section])
        and not anchors.ranged([section])
        and not any(source.startswith("advice: ") for source in section.sources)
    ]
    assert len(bare) <= WITHOUT_PHRASE


def test_every_fact_is_of_a_range_in_the_text(found: list[Claim]) -> None:
    mine = [claim for claim in found if claim.package in edges.HELD.values()]
    near = [(one, one.near.lower(), {boundary(one.package, *edge) for edge in one.edges}) for one in mine]
    idle = [
        fact
        for fact in facts()
        if not any(
            ends & edges_of(fact.source)
            if claim.package == edges.HELD[fact.source.package]
            else any(names(fact.source, claim.package, edge) for edge in claim.edges)
            for claim, text, ends in near
            if all(word in text for word in fact.words)
        )
    ]
    assert idle == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("`f` (torch >=2.13)", [("torch", ((">=", "2.13"),))]),
        ("`f` on torch <=2.12, `g` (>=2.14)", [("torch", (("<=", "2.12"),)), ("torch", ((">=", "2.14"),))]),
        ("up to torch 2.12 it fails", [("torch", (("<=", "2.12"),))]),
        ("torch 2.4 to 2.13", [("torch", ((">=", "2.4"), ("<=", "2.13")))]),
        ("torch 2.10 or later", [("torch", ((">=", "2.10"),))]),
        ("before torch 2.10", [("torch", (("<", "2.10"),))]),
        (
            "MCore >=0.15,<0.17 and TE 2.6 to 2.8",
            [("MCore", ((">=", "0.15"), ("<", "0.17"))), ("TE", ((">=", "2.6"), ("<=", "2.8")))],
        ),
        ("from 2.9 to 4.0 ms, 1.2 to 2.2 times", []),
        ("seen on torch 2.11", []),
        ("Read on 2026-11-21 in torch 2.11 to 2.15", []),
    ],
)
def test_what_is_a_claim(line: str, expected: list[object], sections: list[Section]) -> None:
    assert [(claim.package, claim.edges) for claim in _claim(sections, line)] == expected


def test_a_range_moved_by_one_release_does_not_hold(sections: list[Section]) -> None:
    for text, there in [
        ("`keep_graph` (torch >=2.8)", True),
        ("`keep_graph` (torch >=2.7)", False),
        ("`keep_graph` (torch >=2.9)", False),
        ("`keep_graph` up to torch 2.7 is missing", True),
        ("`keep_graph` on torch <=2.8", False),
        ("`retained_graph` (torch >=2.8)", False),
    ]:
        (claim,) = _claim(sections, text)
        assert holds(claim) is there, text


def test_edges_of_ranges() -> None:
    known = anchors.RELEASES["torch"]
    between = {"2.8": (known.index("2.7.1"), known.index("2.8.0")), "2.9.1": (known.index("2.9.0"), known.index("2.9.1"))}
    for version, (left, right) in between.items():
        assert right == left + 1
        assert boundary("torch", ">=", version) == boundary("torch", "<", version) == right
    assert boundary("torch", "<=", "2.7") == boundary("torch", ">=", "2.8")
    assert boundary("torch", ">=", "3.0") is None

    def ends(source: str) -> frozenset[int]:
        parsed = anchors.parsed(source)
        assert parsed
        return edges_of(parsed)

    assert ends('torch@2.8-2.9 f.py "f"') == {boundary("torch", ">=", "2.8"), boundary("torch", "<=", "2.9")}
    assert ends('libtorch@-2.7 f.so "f"') == {boundary("torch", ">=", "2.8")}
    assert ends('torch@none f.py "f"') == {len(known)}


def test_an_edge_needs_a_release_before_it() -> None:
    core = edges.order("MCore")
    assert core == anchors.RELEASES["Megatron-LM"] + ["0.19.2"]

    def ends(source: str) -> list[str]:
        parsed = anchors.parsed(source)
        assert parsed
        return [core[number] for number in sorted(edges_of(parsed)) if number < len(core)]

    assert ends('Megatron-LM@0.14- f.py "f"') == ["0.14.0"]
    assert ends('MCore@0.14- f.py "f"') == []  # 0.14.0 is the oldest wheel that is read
    assert ends('MCore@0.15-0.16 f.py "f"') == ["0.15.0", "0.17.0"]


def test_an_edge_needs_a_release_on_both_sides() -> None:
    engine = edges.order("TE")
    assert engine == [
        *anchors.RELEASES["NVIDIA/TransformerEngine"][: engine.index("2.6.0.post1")],
        *anchors.RELEASES["TE"][anchors.RELEASES["TE"].index("2.6.0.post1") :],
    ]

    def ends(source: str) -> list[str]:
        parsed = anchors.parsed(source)
        assert parsed
        return [engine[number] for number in sorted(edges_of(parsed)) if number < len(engine)]

    assert ends('TE@2.1- f.py "f"') == ends('TE@-1.13 f.py "f"') == []  # 2.0 has no wheel
    assert ends('NVIDIA/TransformerEngine@2.0- f.py "f"') == ends('NVIDIA/TransformerEngine@-1.13 f.py "f"') == ["2.0.0"]
    assert ends('NVIDIA/TransformerEngine@1.6- f.py "f"') == ["1.6.0"]
    assert ends('TE@2.2- f.py "f"') == ["2.2.0"]


@pytest.mark.parametrize(
    ("source", "package", "edge", "there"),
    [
        ('MCore@0.17- f.py "requires TE version >= 2.12.0."', "TE", (">=", "2.12"), True),
        ('MCore@0.17- f.py "requires TE version >= 2.12.0."', "TE", ("<", "2.12.0"), True),
        ('MCore@0.17- f.py "requires TE version >= 2.12.0."', "TE", ("<=", "2.12"), False),
        ('MCore@0.17- f.py "requires TE version >= 2.12.0."', "TE", (">=", "2.1"), False),
        ('MCore@0.17- f.py "requires TE version >= 2.12.0."', "torch", (">=", "2.12"), False),
        ('MCore@0.17- f.py "is_te_min_version("2.7.0.dev0")"', "TE", (">=", "2.7"), True),
        ('MCore@0.17- f.py "latest version 2.12.0"', "TE", (">=", "2.12"), False),
        ('Bridge@0.4- f.toml "transformer-engine[pytorch]>=2.10.0a0,<2.13.0"', "TE", ("<", "2.13"), True),
        ('TE@2.12- f.py "TE version >= 2.12.0"', "TE", (">=", "2.12"), False),
    ],
)
def test_a_phrase_may_name_a_release_of_another_package(source: str, package: str, edge: tuple[str, str], there: bool) -> None:
    parsed = anchors.parsed(source)
    assert parsed
    assert names(parsed, package, edge) is there


def test_a_signature_speaks_of_lines_that_name_its_arguments(sections: list[Section]) -> None:
    for text, there in [
        ("`make_graphed_callables(pool=…)` (TE >=1.12)", True),
        ("`make_graphed_callables` (TE >=1.12)", False),
    ]:
        (claim,) = _claim(sections, text)
        assert claim.package == "TE"
        assert holds(claim) is there, text
