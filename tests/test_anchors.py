"""Sources with ranges of releases: their form, what they mean, and the kept result of looking them up in the real packages."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import signatures
from anchors import KEPT, RELEASES, Ranged, digest, ranged, stale

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Section

CONFIG = '''
from dataclasses import dataclass, field
from typing import Literal

@dataclass
class Base:
    inherited: int = 1

@dataclass
class Config(Base):
    """A config."""
    impl: Literal["none", "local"] = "none"
    modules: list[str] = field(default_factory=list)
    single_pool: bool = True
    steps: int = field(default=3, metadata={"a": 1})
    hidden: int = 0

    def make(self, model, *, pool=None, order=()): ...

class Helper:
    def __init__(self, model, optimizers=[]): ...

IMPLS = ["none", "local"]
'''
OPTIONS = """
from package.models import Config

def add(parser):
    parser.add_argument("--scope", "-s", type=str, default="full", choices=["full", "attn"])
    parser.add_argument("--with_underscore", action="store_true")
    exclude = ["hidden"]
    ArgumentGroupFactory(Config, exclude=exclude).build_group(parser, "config")
"""
FILES = {
    "package/models/__init__.py": "from .config import Config\n",
    "package/models/config.py": CONFIG,
    "package/options.py": OPTIONS,
}


def test_the_kept_result_is_of_todays_sources_and_all_of_them_hold(sections: list[Section]) -> None:
    kept, wanted = json.loads(KEPT.read_text(encoding="utf-8")), ranged(sections)
    again = "run `python tests/anchors.py releases …`, see its docstring"
    sources = {anchor.source for anchor in wanted}
    assert sources - set(kept["anchors"]) == set(), again
    assert set(kept["anchors"]) - sources == set(), again
    assert kept["digest"] == digest(wanted)
    assert {source: result for source, result in kept["anchors"].items() if result != "passed"} == {}
    assert kept["releases"] == {package: " ".join(RELEASES[package]) for package in {anchor.package for anchor in wanted}}
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", kept["date"])


def test_every_source_with_a_range_can_be_read(sections: list[Section]) -> None:
    texts = {source for section in sections for source in section.sources if re.match(r"\S+@([\d.,]*-[\d.,-]*|none) ", source)}
    wanted = ranged(sections)
    assert texts == {anchor.source for anchor in wanted}
    assert len(wanted) >= 280
    assert [anchor.source for anchor in wanted if (anchor.ranges == "none") != (not anchor.releases)] == []
    for anchor in wanted:
        assert anchor.claim.startswith('"') == anchor.claim.endswith('"')
        if not anchor.claim.startswith('"'):
            signatures.claim(anchor.claim)


@pytest.mark.parametrize("reference", ["api-te-megatron", "api-megatron-bridge"])
def test_a_section_about_versions_has_a_source_with_a_range(reference: str, sections: list[Section]) -> None:
    mine = [section for section in sections if section.path == f"references/{reference}.md" and section.level == 3]
    checked = {section.ref for section in mine if ranged([section])}
    about = [
        section
        for section in mine
        if re.search(r"by version|since which version|deprecated|renamed|removed", section.headings[-1])
    ]
    assert len(about) >= 4
    assert [section.ref for section in about if section.ref not in checked] == []


@pytest.mark.parametrize(
    ("ranges", "first", "last"),
    [
        ("-", "0.14.0", "0.19.2"),
        ("0.18-", "0.18.0", "0.19.2"),
        ("-0.15", "0.14.0", "0.15.3"),
        ("0.16-0.17", "0.16.0", "0.17.1"),
        ("0.15.3-0.15.3", "0.15.3", "0.15.3"),
    ],
)
def test_the_ends_of_a_range(ranges: str, first: str, last: str) -> None:
    releases = Ranged("", "MCore", ranges, "f.py", "f").releases
    assert (releases[0], releases[-1]) == (first, last)


def test_ranges_may_have_a_gap_or_name_nothing() -> None:
    assert Ranged("", "MCore", "-0.14,0.19-", "f.py", "f").releases == ["0.14.0", "0.19.0", "0.19.2"]
    assert Ranged("", "MCore", "none", "f.py", "f").releases == []
    with pytest.raises(ValueError, match=r"0\.20"):
        _ = Ranged("", "MCore", "0.20-", "f.py", "f").releases


@pytest.mark.parametrize(
    ("ranges", "wrong"),
    [
        ("0.16-0.17", ""),
        ("0.16-", "not in 0.18.0, not in 0.18.2, not in 0.19.0, not in 0.19.2"),
        ("0.17-0.17", "also in 0.16.0, also in 0.16.1"),
        ("0.15.3-0.17", "not in 0.15.3"),
        ("none", "also in 0.16.0, also in 0.16.1, also in 0.17.0, also in 0.17.1"),
    ],
)
@pytest.mark.parametrize("claim", ['"steps = 3"', "steps=3"])
def test_an_anchor_holds_in_its_releases_and_in_no_other(ranges: str, wrong: str, claim: str) -> None:
    def read(release: str, _: str) -> str:
        return "steps = 3\n" if release.startswith(("0.16", "0.17")) else "steps = 4\n"

    assert stale(Ranged("", "MCore", ranges, "f.py", claim), read) == wrong


def test_an_anchor_in_a_file_that_no_release_has_is_stale() -> None:
    assert stale(Ranged("", "MCore", "none", "g.py", "f"), lambda *_: None) == "no release has this file"


@pytest.mark.parametrize(
    "text",
    [
        "Config",
        "Config.impl",
        "Config.impl='none'",
        "Config.impl: Literal['none', 'local']='none'",
        "Config.modules=[]",
        "Config.steps=3",
        "Config.make(model, pool=None)",
        "Config(impl, steps=3)",
        "Helper(model, optimizers=[])",
        "IMPLS=['none', 'local']",
    ],
)
def test_a_signature_that_holds(text: str) -> None:
    assert signatures.holds(text, "package/models/config.py", FILES.get)


@pytest.mark.parametrize(
    "text",
    [
        "Missing",
        "Config.missing",
        "Config.inherited",
        "Config.single_pool=False",
        "Config.single_pool=1",
        "Config.impl: str='none'",
        "Config.make(pool=1)",
        "Config.make(stream)",
        "Helper(optimizers=None)",
        "IMPLS=['none']",
        "impl",
    ],
)
def test_a_signature_that_does_not_hold(text: str) -> None:
    assert not signatures.holds(text, "package/models/config.py", FILES.get)
    assert not signatures.holds(text, "package/models/absent.py", FILES.get)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("--scope", True),
        ("--scope(default='full', choices=['full', 'attn'])", True),
        ("--scope(default='attn')", False),
        ("--scope(nargs='+')", False),
        ("--with_underscore(action='store_true')", True),
        ("--with-underscore", False),
        ("--impl(default='none', choices=['none', 'local'])", True),  # made of a field
        ("--no-single-pool", True),
        ("--single-pool", False),
        ("--inherited(default=1)", True),
        ("--hidden", False),  # excluded
        ("--missing", False),
    ],
)
def test_an_option_of_a_command_line(text: str, there: bool) -> None:
    assert signatures.holds(text, "package/options.py", FILES.get) is there


@pytest.mark.parametrize("text", ["a phrase without quotes", "f(", "x = y = 1", "import x"])
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a signature"):
        signatures.claim(text)
