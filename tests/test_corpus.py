"""Markdown to sections."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill import corpus
from cudagraph_skill.corpus import load, questions
from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.corpus.section import Section


def _sections(text: str) -> list[Section]:
    return load.sections([load.Document("file.md", text.encode())])


def test_a_section_ends_at_the_next_heading_of_any_level() -> None:
    first, second, third = _sections("# One\na\n\n## Two\nb\n\n# Three\nc\n")
    assert (first.text, second.text, third.text) == ("a", "b", "c")
    assert second.headings == ("One", "Two")
    assert third.headings == ("Three",)


def test_lines_are_those_an_editor_shows() -> None:
    text = "# One\na\n\n## Two\nb\n"
    first, second = _sections(text)
    assert (first.first, first.last) == (1, 3)
    assert text.splitlines()[second.first - 1] == "## Two"
    assert second.last == 5


def test_a_hash_inside_a_fence_is_no_heading() -> None:
    assert len(_sections("# One\n```bash\n# comment\n```\n")) == 1


def test_setext_headings_count() -> None:
    assert [section.headings[-1] for section in _sections("One\n===\na\n\nTwo\n---\nb\n")] == ["One", "Two"]


def test_the_comment_under_a_heading_is_read_and_not_shown() -> None:
    (section,) = _sections(
        '# One\n<!-- asks: why so | how\n     errors: it | broke\n     source: torch@2.13 a.py "b c" -->\ntext\n'
    )
    assert section.asks == ("why so", "how")
    assert section.errors == ("it", "broke")
    assert section.sources == ('torch@2.13 a.py "b c"',)
    assert section.text == "text"


def test_questions_of_a_file_are_added_to_their_sections() -> None:
    asked = b'# two\nask: why so\nask: how\ntell: 5 it & broke\nsource: torch@2.13 a.py "b: c"\n'
    first, second = load.sections([load.Document("file.md", b"# One\na\n\n# Two\n<!-- errors: it broke -->\nb\n", asked)])
    assert first.asks == first.tells == first.sources == ()
    assert (second.asks, second.tells) == (("why so", "how"), ("5 it & broke",))
    assert (second.errors, second.sources) == (("it broke",), ('torch@2.13 a.py "b: c"',))


@pytest.mark.parametrize("text", ["ask: before any anchor", "# a\nask:", "# a\nwhy so", "# a\nask: b\n\n# a\nask: c", "## a"])
def test_a_line_of_questions_that_is_none_is_named(text: str) -> None:
    with pytest.raises(SkillError, match=r"a\.txt:\d+: expected"):
        questions.parse(text, "a.txt")


def test_an_open_comment_hides_nothing() -> None:
    (section,) = _sections("# One\n<!-- asks: why\ntext\n")
    assert "text" in section.text


def test_text_before_the_first_heading_belongs_to_the_front_matter_title() -> None:
    (section,) = _sections("---\ntitle: A guide\n---\nhello\n")
    assert section.headings == ("A guide",)
    assert section.first == 4


def test_broken_front_matter_is_named_with_its_line_and_the_text_is_kept() -> None:
    notes: list[str] = []
    sections = load.sections([load.Document("file.md", b"---\na: [\n---\n# One\nhello\n")], notes.append)
    assert "hello" in sections[-1].text
    assert len(notes) == 1
    assert "file.md" in notes[0]
    assert "YAML" in notes[0]


@pytest.mark.parametrize(
    "front",
    [
        "date: 2026-13-45",
        "title: !!int x",
        "title: !!bool x",
        "title: !!timestamp x",
        "a: " + "[" * 700 + "]" * 700,
        "- : - {",
    ],
)
def test_odd_front_matter_never_costs_the_text(front: str) -> None:
    notes: list[str] = []
    sections = load.sections([load.Document("file.md", f"---\n{front}\n---\n# One\nhello\n".encode())], notes.append)
    assert sections[-1].text == "hello"
    assert len(notes) == 1


def test_a_title_that_refers_to_itself_ten_levels_deep_is_not_spelled_out() -> None:
    levels = "\n".join(
        f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]" for below, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    text = f"---\na: &a [x, x]\n{levels}\ntitle: *j\n---\nhello\n"
    (section,) = _sections(text)
    assert section.headings == ("file",)


def test_lines_end_where_editors_end_them() -> None:
    text = "# A\n\nx\u2028y\x0cz\x85\n\n# B\r\nb\n"
    assert [section.first for section in _sections(text)] == [1, 5]


def test_every_anchor_is_used_once() -> None:
    anchors = [section.anchor for section in _sections("# a\n# a-1\n# a\n# !!!\n# ???\n")]
    assert len(set(anchors)) == 5
    assert all(anchors)


def test_two_headings_of_one_name_get_two_anchors() -> None:
    assert [section.anchor for section in _sections("# A b\n# A b\n")] == ["a-b", "a-b-1"]


@pytest.mark.parametrize(
    ("heading", "anchor"), [("`torch.cuda.graph`: a block", "torchcudagraph-a-block"), ("--flag", "--flag")]
)
def test_anchors_are_githubs(heading: str, anchor: str) -> None:
    assert load.slug(heading) == anchor


def test_bytes_that_are_not_utf8_cost_one_note_and_not_the_file() -> None:
    notes: list[str] = []
    sections = load.sections([load.Document("file.md", b"# One\ncaf\xe9\n")], notes.append)
    assert len(sections) == 1
    assert len(notes) == 1


def test_binary_files_are_left_out_with_a_note() -> None:
    notes: list[str] = []
    sections = load.sections([load.Document("file.md", b"\x7fELF\0\0")], notes.append)
    assert sections == []
    assert "NUL" in notes[0]


def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="no such folder"):
        load.documents(skill_root(), tmp_path / "none")


def test_a_folder_without_markdown_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="no Markdown file"):
        load.documents(skill_root(), tmp_path)


def test_the_digest_changes_with_any_byte() -> None:
    first, second = load.Document("a.md", b"x"), load.Document("a.md", b"y")
    assert load.digest([first]) != load.digest([second])
    assert load.digest([first, second]) != load.digest([second, first])
    assert load.digest([first]) != load.digest([first._replace(asked=b"x")])


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    code = "import sys, cudagraph_skill.corpus; print(sum(name.startswith('cudagraph_skill') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=skill_root() / "tools")
    assert done.stdout == "2\n"
    assert all(hasattr(corpus, name) for name in corpus.__all__)
    assert len((corpus.__doc__ or "").splitlines()) <= 30
