"""Sentences that say always, never, all or every of a release, and name none: a later release can make each of them wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_skill.corpus.section import Section

_WORD = re.compile(r"\b(all|always|every|never|no release|no version)\b", re.IGNORECASE)
_OF_RELEASES = re.compile(r"\b(all|every|no|any) (torch |other |PyTorch )?(releases?|versions?)\b", re.IGNORECASE)
_SUBJECT = re.compile(
    r"(?<![\w./`-])(torch|PyTorch|CUDA|cuBLAS|cuDNN|NCCL|Inductor|Dynamo|MCore|Megatron-Core|TE|Bridge)(?![\w./(])"
)
_RANGE = re.compile(r"\d+\.\d+")

# How many there are. Both may only fall: say in which releases it was read, as in "every release up to torch 2.15".
ABSOLUTE = 148
OF_RELEASES = 54


def sentences(text: str) -> list[str]:
    """Return the sentences, bullets and table rows of a section, without code and link targets."""
    prose = re.sub(r"```.*?```|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    return [
        sentence for line in prose.split("\n") for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[])", line) if sentence.strip()
    ]


def absolute(text: str) -> list[str]:
    """Return the sentences that say all, always, every or never of torch, CUDA or a library, without a version."""
    return [one for one in sentences(text) if _WORD.search(one) and _SUBJECT.search(one) and not _RANGE.search(one)]


def of_releases(text: str) -> list[str]:
    """Return the sentences about all releases or none that say of none up to which one."""
    return [one for one in sentences(text) if _OF_RELEASES.search(one) and not _RANGE.search(one)]


def _all(sections: Iterable[Section], find: object) -> list[str]:
    assert callable(find)
    return [f"{section.ref}: {one}" for section in sections for one in find(section.text)]


def test_sentences_without_a_range_only_become_fewer(sections: list[Section]) -> None:
    assert len(_all(sections, absolute)) <= ABSOLUTE
    assert len(_all(sections, of_releases)) <= OF_RELEASES


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("torch always empties the cache.", 1),
        ("torch <=2.8 always empties the cache.", 0),
        ("Always call `g.replay()`.", 0),
        ("CUDA never does this. Every release of NCCL does that.", 2),
        ("```python\n# torch always\n```", 0),
        ("| torch | never |\n- every op of CUDA", 2),
    ],
)
def test_what_is_absolute(text: str, number: int) -> None:
    assert len(absolute(text)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("No release has it.", 1), ("No release up to torch 2.15 has it.", 0), ("All versions, every time.", 1)],
)
def test_what_is_said_of_releases(text: str, number: int) -> None:
    assert len(of_releases(text)) == number
