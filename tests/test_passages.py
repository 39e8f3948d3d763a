"""Sections to passages."""

from __future__ import annotations

from cudagraph_skill.corpus import excerpt
from cudagraph_skill.corpus.section import Section


def _section(text: str) -> Section:
    return Section("a.md", "a", ("A",), 1, 1, 2, text, (), (), ())


LONG = "The answer first.\n\nApples are red.\n\n```python\nfence = 1\n\nother = 2\n```\n\n- pears are green\n- plums are blue\n"


def test_what_fits_is_whole() -> None:
    assert excerpt.fit([_section("short")], frozenset(), 100) == [("short", True)]


def test_a_cut_passage_keeps_its_opening_and_what_was_asked() -> None:
    ((text, whole),) = excerpt.fit([_section(LONG)], frozenset(["plum"]), 40)
    assert not whole
    assert text.startswith("The answer first.")
    assert "plums" in text
    assert "Apples" not in text
    assert excerpt.GAP in text


def test_a_fence_is_never_cut() -> None:
    for budget in range(20, 200, 7):
        ((text, _),) = excerpt.fit([_section(LONG)], frozenset(["fence"]), budget)
        assert text.count("```") in (0, 2)


def test_what_a_short_section_leaves_goes_to_the_others() -> None:
    cut = excerpt.fit([_section("x" * 10), _section("y" * 80)], frozenset(), 100)
    assert all(whole for _, whole in cut)


def test_a_table_is_cut_between_rows_and_keeps_its_head() -> None:
    table = "| a | b |\n|---|---|\n" + "".join(f"| row{n} | {n} |\n" for n in range(40))
    ((text, _),) = excerpt.fit([_section(table)], frozenset(["row7"]), 90)
    assert text.startswith("| a | b |\n|---|---|\n")
