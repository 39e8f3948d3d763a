"""What is kept in the cache folder: private, whole, and built once."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.corpus import analysis, headings, index, porter, rank, sqlite_store, whoosh_store
from cudagraph_skill.paths import skill_root
from whoosh import fields
from whoosh.filedb.filestore import FileStorage
from whoosh.index import TOC

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.corpus.section import Section

ROOT = Path(__file__).resolve().parent.parent
_SEARCH = """
import sys, time
from pathlib import Path
from cudagraph_skill.corpus import analysis, building, index
{before}
found = index.open_index(Path(sys.argv[1]), say=lambda note: print(note, file=sys.stderr))
print(found.search("pool").hits[0].section.ref)
"""


def _started(root: Path, before: str = "", **options: Any) -> subprocess.Popen[str]:
    """Start a process that searches the skill in `root`, after some lines of code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    command = [sys.executable, "-c", _SEARCH.format(before=before), str(root)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options)


def _kept(folder: Path) -> Path:
    (path,) = folder.glob("index-*")
    return path


class _Planted(fields.Schema):  # type: ignore[misc]
    """A schema that makes a folder when it is unpickled."""

    marker = ""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self.marker,)


def _plant(folder: Path, marker: Path) -> None:
    """Replace the table of contents of an index by one that runs code."""
    schema = _Planted()
    schema.marker = str(marker)
    (toc,) = folder.glob("*.toc")
    toc.unlink()
    TOC(schema, [], 1).write(FileStorage(str(folder)), "MAIN")
    toc.chmod(0o600)
    sizes = [line.split(" ") for line in (folder / "sizes").read_text().splitlines()]
    lines = [f"{name} {toc.stat().st_size if name == toc.name else size}\n" for name, size in sizes]
    (folder / "sizes").write_text("".join(lines))


def _open_folder(folder: Path) -> None:
    folder.chmod(0o755)


def _open_file(folder: Path) -> None:
    next(folder.glob("*.toc")).chmod(0o666)


def _link_folder(folder: Path) -> None:
    folder.rename(folder.parent.parent / "elsewhere")
    folder.symlink_to(folder.parent.parent / "elsewhere")


def _link_file(folder: Path) -> None:
    toc = next(folder.glob("*.toc"))
    toc.rename(folder.parent.parent / "toc")
    toc.symlink_to(folder.parent.parent / "toc")


def _give_away(folder: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a file of another user")
    os.chown(next(folder.glob("*.toc")), 65534, 65534)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Whoosh leaves the planted file open
@pytest.mark.parametrize("expose", [_open_folder, _open_file, _link_folder, _link_file, _give_away])
def test_an_index_that_others_could_have_planted_is_not_opened(
    expose: Callable[[Path], None], cache: Path, small: Path, tmp_path: Path
) -> None:
    index.open_index(small)
    folder = _kept(cache)
    _plant(folder, tmp_path / "control")
    with contextlib.suppress(Exception):
        FileStorage(str(folder)).open_index()
    assert (tmp_path / "control").is_dir()  # what is planted would run
    _plant(folder, tmp_path / "ran")
    expose(folder)
    assert index.open_index(small).search("pool").hits
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("mode", "reason"), [(0o777, "others can write"), (0o770, "others can write"), (None, "is a link")])
def test_nothing_is_kept_in_a_folder_that_others_can_fill(
    mode: int | None, reason: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    named = folder
    if mode is None:
        named = tmp_path / "link"
        named.symlink_to(folder)
    else:
        folder.chmod(mode)
    monkeypatch.setenv("CUDAGRAPH_SKILL_CACHE", str(named))
    notes: list[str] = []
    assert index.open_index(small, say=notes.append).search("pool").hits
    assert reason in notes[-1]
    assert list(folder.iterdir()) == []


def test_nothing_is_kept_in_a_checkout_or_under_a_relative_path(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for named, reason in ((str(tmp_path / "project" / "cache"), "inside a checkout"), ("cache", "not absolute")):
        monkeypatch.setenv("CUDAGRAPH_SKILL_CACHE", named)
        notes: list[str] = []
        assert index.open_index(small, say=notes.append).search("pool").hits
        assert reason in notes[-1]
    assert not (tmp_path / "cache").exists()


def test_a_home_folder_that_is_a_repository_may_hold_the_cache(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CUDAGRAPH_SKILL_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    index.open_index(small)
    assert _kept(tmp_path / ".cache" / "cudagraph-skill").stat().st_mode & 0o777 == 0o700


def test_what_is_kept_is_private(cache: Path, small: Path) -> None:
    index.open_index(small)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in _kept(cache).iterdir()} == {0o600}


def test_sixteen_processes_build_one_index(cache: Path, small: Path) -> None:
    ended = [process.communicate() for process in [_started(small) for _ in range(16)]]
    assert {out for out, _ in ended} == {"references/pools.md#share-a-pool\n"}
    assert sum(error.count("building the search index of") for _, error in ended) == 1
    assert [path.name for path in cache.iterdir()] == [_kept(cache).name]


def test_a_killed_builder_leaves_the_others_free_to_build(cache: Path, small: Path) -> None:
    stuck = _started(small, "analysis.content = lambda sections: time.sleep(60)")
    assert stuck.stderr is not None
    assert "building" in stuck.stderr.readline()
    waiting = _started(small)
    assert waiting.stderr is not None
    assert "waiting for it" in waiting.stderr.readline()
    stuck.send_signal(signal.SIGKILL)
    stuck.communicate()
    out, _ = waiting.communicate(timeout=20)
    assert out == "references/pools.md#share-a-pool\n"
    assert _kept(cache).is_dir()


def test_a_builder_that_hangs_costs_a_wait_and_no_answer(cache: Path, small: Path) -> None:
    with_lock = "analysis.content = lambda sections: time.sleep(60)"
    stuck = _started(small, with_lock)
    assert stuck.stderr is not None
    stuck.stderr.readline()
    out, error = _started(small, "building._WAIT_SECONDS = 0.2").communicate(timeout=20)
    stuck.kill()
    stuck.communicate()
    assert out == "references/pools.md#share-a-pool\n"
    assert "another process is using the cache folder" in error
    assert list(cache.glob("index-*")) == []


@pytest.mark.parametrize("engine", ["whoosh_store", "sqlite_store"])
def test_a_full_disk_costs_a_note_and_no_answer(engine: str, cache: Path, small: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

    chosen = f"from cudagraph_skill.corpus import {engine}; index._engine = lambda: {engine}"
    out, error = _started(small, chosen, preexec_fn=limit).communicate(timeout=20)
    assert out == "references/pools.md#share-a-pool\n"
    assert "cannot be kept" in error
    assert list(cache.iterdir()) == []


def test_search_and_errors_unpickle_nothing_of_their_own() -> None:
    for package in ("corpus", "diagnosis"):
        for path in (ROOT / "tools/cudagraph_skill" / package).glob("*.py"):
            assert not {"import pickle", "import marshal", "import shelve"} & set(path.read_text().splitlines()), path


@pytest.mark.slow
@pytest.mark.parametrize("engine", [whoosh_store, sqlite_store])
def test_every_engine_gives_the_same_answers(engine: Any, sections: list[Section], tmp_path: Path) -> None:
    content = analysis.content(sections)
    engine.write(tmp_path, content)
    kept = index.Index(engine.open_store(tmp_path), content.spelling)
    in_memory = index.Index(content, content.spelling)
    for question in [section.asks[0] for section in sections if section.asks][::29]:
        assert kept.search(question) == in_memory.search(question)
    assert kept.sections() == in_memory.sections()


def test_a_record_comes_back_from_json(sections: list[Section]) -> None:
    (text,) = analysis.content(sections[5:6]).records
    assert rank.record(text).section == sections[5]
    assert json.loads(text)


@pytest.mark.parametrize("path", [ROOT / "SKILL.md", *sorted((ROOT / "references").glob("*.md"))], ids=lambda path: path.name)
def test_headings_read_line_by_line_are_those_of_markdown_it(path: Path) -> None:
    lines = path.read_text().split("\n")
    start = lines.index("---", 1) + 1 if lines[0] == "---" else 0
    assert list(headings.by_line(lines, start)) == list(headings.by_markdown_it(lines, start))


@pytest.mark.parametrize(
    "text",
    [
        "# a\n## b ##\n### `c` #\n#no\n####### no\n#\n",
        "a\n===\nb\nc\n---\n\n---\n\n- d\n---\n",
        "```\n# a\n``` x\n# b\n````\n# c\n~~~\n# d\n~~~\n",
        "<!-- # a\n# b\n-->\n# c\n<!-- d -->\n# e\n",
        "    # code\n> # quoted\n\n   # three blanks\n",
        "1. a\n   ```python\n   # b\n   ```\n# c\n",
    ],
)
def test_headings_of_odd_texts_are_the_same_for_both_readers(text: str) -> None:
    lines = text.split("\n")
    assert list(headings.by_line(lines, 0)) == list(headings.by_markdown_it(lines, 0))


@pytest.mark.slow
def test_the_stemmer_is_that_of_whoosh(sections: list[Section]) -> None:
    from whoosh.lang.porter import stem

    words = set(analysis.content(sections).spelling.split("\n"))
    words |= {word + ending for word in words for ending in ("s", "ed", "ing", "y", "ational", "ness", "ement", "ll", "e")}
    assert [word for word in words if porter.stem(word) != stem(word)] == []
    assert len(words) > 30_000


def test_an_index_is_made_of_the_installed_whoosh(cache: Path) -> None:
    start = time.process_time()
    index.open_index(skill_root())
    assert _kept(cache).name.split("-")[2] == "whoosh"
    assert time.process_time() - start < 6  # a second; a build of the whole index once took ten


def test_an_index_that_is_dropped_closes_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    sqlite_store.write(folder, analysis.Content([], {}, ""))
    store = sqlite_store.open_store(folder)
    connection = store._base
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")
