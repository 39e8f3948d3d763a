"""What several test files need: the corpus, an index over it, and a cache folder that is not the user's."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.corpus import load
from cudagraph_skill.corpus.index import Index, open_index
from cudagraph_skill.diagnosis.entries import open_table
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.corpus.section import Section


def pytest_configure() -> None:
    if os.environ.get("CI") and find_spec("torch") is None:
        pytest.exit("CI must have torch: the anchors in the references are compared with its source", 1)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # the workers of a run build one index together
    os.environ["CUDAGRAPH_SKILL_CACHE"] = str(shared / "cache")
    open_index(skill_root())
    open_table(skill_root())  # a worker that waits for another one's says so on stderr, which tests read


@pytest.fixture(scope="session")
def sections() -> list[Section]:
    notes: list[str] = []
    loaded = load.sections(load.documents(skill_root()), notes.append)
    assert notes == []
    return loaded


@pytest.fixture(scope="session")
def index() -> Index:
    return open_index(skill_root())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty cache folder for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CUDAGRAPH_SKILL_CACHE", str(folder))
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Write a skill of three sections, for tests that build an index many times."""
    root = tmp_path / "small"
    (root / "references").mkdir(parents=True)
    (root / "SKILL.md").write_text("# Small\n\n## Capture\nCapture records a graph.\n")
    (root / "references" / "pools.md").write_text("# Pools\n\n## Share a pool\nGraphs share a pool by its handle.\n")
    return root
