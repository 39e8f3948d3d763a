"""Source as people have it: encodings, notebooks, newer syntax, text that is no code; and comments that allow a line."""

from __future__ import annotations

import ast
import codecs
import io
import json
import time
import tokenize
from itertools import pairwise
from pathlib import Path

import pytest
from cudagraph_skill.check import hazards
from cudagraph_skill.check.findings import Finding
from cudagraph_skill.check.input.newer_syntax import older
from cudagraph_skill.check.input.settings import Options, chosen, excluded, settings
from cudagraph_skill.check.input.source import UNREAD, Source, allowed, lines_of, read_source
from cudagraph_skill.check.input.targets import expand, names, no_function, split
from cudagraph_skill.check.input.tokens import bare, pieces
from cudagraph_skill.errors import SkillError
from hazard_sample import TEXT, sample
from hypothesis import given, strategies

__all__ = ["sample"]  # a fixture

TABLE = hazards.table
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _own_table(sample: Path) -> None:
    assert sample.is_file()


def _tree(text: str | bytes) -> ast.Module:
    source = read_source("m.py", text)
    assert source.tree is not None, source.problem
    assert source.problem == ""
    return source.tree


@pytest.mark.parametrize(
    "data",
    [
        "é = 'ü'\n".encode(),
        codecs.BOM_UTF8 + "é = 'ü'\n".encode(),
        "# -*- coding: latin-1 -*-\né = 'ü'\n".encode("latin-1"),
        "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\né = 'ü'\n".encode("cp1252"),
        "é = 'ü'\n".encode("latin-1"),
        "# coding: no-such-encoding\né = 'ü'\n".encode(),
        "# coding: rot13\né = 'ü'\n".encode(),
        codecs.BOM_UTF16_LE + "é = 'ü'\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "é = 'ü'\n".encode("utf-16-be"),
        codecs.BOM_UTF32_LE + "é = 'ü'\n".encode("utf-32-le"),
    ],
)
def test_every_encoding_is_read(data: bytes) -> None:
    (assign,) = _tree(data).body
    assert isinstance(assign, ast.Assign)
    assert ast.unparse(assign) == "é = 'ü'"


def test_line_ends_and_form_feeds_do_not_move_lines() -> None:
    for text in (
        "a = 1\r\nb = 2\r\nc = 3",
        "a = 1\rb = 2\rc = 3\r",
        "\x0ca = 1\nb = 2\n\x0cc = 3\n",
        "a = '\u2028'\nb = 2\nc = 3",
    ):
        assert [node.lineno for node in _tree(text.encode()).body] == [1, 2, 3]


def test_nothing_is_warned_about() -> None:
    _tree("x = '\\d' is 1\nassert (x, 'y')\n")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"def f(:\n", "m.py:1:7: "),
        (b"x = 1\nprint 'a'\n", "m.py:2:1: "),
        (b"x = 1\ny = \0\n", "NUL byte stands at line 2, column 5"),
        (b"\x7fELF\2\1\1" + bytes(200), "binary"),
        ("x = 1 + 2 + 3\n".encode("utf-16-le"), "binary"),
        (b"x = " + b"(" * 3000, "too many nested parentheses"),
        (b"x = " + b"-" * 100_000 + b"1", "nested too deeply"),
        (b"x = 1" + b" + 1" * 100_000, "nested too deeply"),
        (b"x = a" + b".b()" * 50_000, "nested too deeply"),
        (b"if a:\n pass\n" + b"elif b:\n pass\n" * 20_000, "nested too deeply"),
        (b"x = " + b"9" * 5000, "4300"),
        (b"x = 1\n" * (3 << 20), "MiB"),
        (b"\xff\xfe" + b"x" * 3, UNREAD),
    ],
)
def test_what_is_no_python_is_one_sentence(data: bytes, says: str) -> None:
    source = read_source("m.py", data)
    assert source.tree is None
    assert says in source.problem
    assert UNREAD in source.problem
    assert "\n" not in source.problem


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.py"):
        assert UNREAD in read_source(str(path)).problem
    assert lines_of(str(tmp_path / "none.py")) == ([], [])


@given(strategies.text())
def test_no_text_raises(text: str) -> None:
    source = read_source("m.py", text)
    assert (source.tree is None) == bool(source.problem)


@given(strategies.binary())
def test_no_bytes_and_no_notebook_raise(data: bytes) -> None:
    read_source("m.py", data)
    read_source("m.ipynb", data)
    cells = [{"cell_type": "code", "source": data.decode("latin-1")}]
    read_source("m.ipynb", json.dumps({"cells": cells}))


def test_columns_count_characters_and_places_name_cells() -> None:
    source = read_source("m.py", "é = x.item()\n")
    assert source.column(1, len("é = ".encode())) == 5
    assert source.place(1) == "m.py:1"


NEWER = [
    ("def f[T: (int, str)](x: T) -> T:\n    return x.item()\n", 2),
    ("async def f[\n    T,  # [\n\n    *Ts, **P\n](x):\n    return x.item()\n", 6),
    ("class A[T](B[T]):\n    def f[U](self): return x.item()\n", 2),
    ("type X[T] = list[T]\ntype Y = int\ntype = 3\nprint(type (3), x.item())\n", 4),
    ("try:\n    pass\nexcept A, B:\n    x.item()\n", 4),
    ("try:\n    pass\nexcept* A.b, B: x.item()\n", 3),
    ('a = f"{d["k"]} {c!r:>{w["k"]}} {", ".join(z)}"; x.item()\n', 1),
    ("a = f'{'\\n'.join(z)}'; x.item()\n", 1),
    ('a = f"{f"{f"{d["k"]}"}"}"\nx.item()\n', 2),
    ('a = f"{\n    d  # "comment" }\n} b" + c\nx.item()\n', 4),
    ('a = g(f"{\n    d\n} b"); x.item()\n', 3),
    ('a = f"""{\n    d["k"]  # it\'s\n}"""\nx.item()\n', 4),
    ("a = t\"a {x!r:>{w}} b {y=} {f'{z[\"a\"]}'}\" + rt'{a}'\nx.item()\n", 2),
    ('a = t"""a\n{y}\n"""; x.item()\n', 3),
    ("a = t'', t'b'; x.item()\n", 1),
]


@pytest.mark.parametrize(("text", "line"), NEWER)
def test_newer_syntax_is_read_and_keeps_its_lines(text: str, line: int) -> None:
    for source in (text, older(text)):
        lines = [node.lineno for node in ast.walk(_tree(source)) if isinstance(node, ast.Attribute) and node.attr == "item"]
        assert lines == [line]


def test_expressions_in_newer_strings_are_kept() -> None:
    rewritten = ast.unparse(_tree(older('a = f"{f"{x.item()}"} {"\\n".join(y.tolist())}"\nb = t"{z.cpu()!r:>{w}}"\n')))
    assert all(part in rewritten for part in ("x.item()", "y.tolist()", "z.cpu()"))


def test_what_every_version_reads_stays_as_it_is() -> None:
    for path in sorted((ROOT / "tools/cudagraph_skill").rglob("*.py")):
        assert older(path.read_text()) == path.read_text()


def test_comments_are_those_that_tokenize_sees() -> None:
    files = [Path(ast.__file__), *Path(ast.__file__).parent.glob("t*.py"), *(ROOT / "tests").glob("*.py")]
    for path in files:
        text = path.read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        expected = [token.string for token in tokens if token.type == tokenize.COMMENT]
        assert [text[piece.start : piece.end] for piece in pieces(text) if not piece.quote] == expected, path


@given(strategies.text("f'\"{}#\\\n:!=tr[]()N a"))
def test_pieces_are_in_order_and_bare_text_keeps_every_place(text: str) -> None:
    parts = pieces(text)
    assert all(part.end <= other.start for part, other in pairwise(parts))
    code = bare(text, parts)
    assert len(code) == len(text)
    assert [at for at, char in enumerate(code) if char == "\n"] == [at for at, char in enumerate(text) if char == "\n"]
    assert older(text).count("\n") >= text.count("\n")


def test_hostile_nesting_takes_no_time() -> None:
    started = time.perf_counter()
    for text in (
        'f"{' * 5000 + '}"' * 5000,
        "f'{x:{" * 5000,
        "t'" * 5000,
        "def f[" * 20_000,
        "type x[" * 5000 + "except a," * 5000,
    ):
        read_source("m.py", text)
    assert time.perf_counter() - started < 5


def _notebook(*cells: str | list[str], **metadata: object) -> str:
    code = [{"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": "# Title"}, *code], "metadata": metadata})


def test_a_notebook_is_its_code_cells_and_each_line_knows_its_own() -> None:
    source = read_source("a.ipynb", _notebook(["import torch\n", "\n", "x = 1"], "y = x.item()"))
    assert source.problem == ""
    assert source.text.split("\n")[:4] == ["import torch", "", "x = 1", "y = x.item()"]
    assert source.place(4) == "a.ipynb:cell 2:1"


MAGICS = """\
%matplotlib inline
!pip install \\
  torch
files = !ls
?torch
torch.randn?
if files:
    %timeit step(x)
y = (1
  %b)
text = '''
%kept
'''
!echo it's
z = a %b"""


def test_magics_are_taken_out_and_no_line_moves() -> None:
    source = read_source("a.ipynb", _notebook(MAGICS, "%%bash\necho 'hi", "%%time\nw = 1"))
    assert source.tree is not None, source.problem
    assert source.notes == ()
    kept = [ast.unparse(node) for node in source.tree.body if not isinstance(node, ast.Pass)]
    assert kept == ["if files:\n    pass", "y = 1 % b", "text = '\\n%kept\\n'", "z = a % b", "w = 1"]
    assert source.place(source.tree.body[-1].lineno) == "a.ipynb:cell 3:2"


def test_a_broken_cell_is_left_out_and_named() -> None:
    source = read_source("a.ipynb", _notebook("x = 1", "def f(:", "y = x.item()"))
    assert source.tree is not None
    assert len(source.tree.body) == 2
    (note,) = source.notes
    assert note.startswith("a.ipynb: cell 2, line 1: ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no notebook"),
        ("[]", "no cells"),
        ("{}", "no cells"),
        (_notebook("x <- 1", kernelspec={"language": "R"}), "notebook of r"),
        (_notebook("x = ("), "cell 1, line 1"),
        ("[" * 100_000, "no notebook"),
    ],
)
def test_what_is_no_notebook_of_python_is_one_sentence(text: str, says: str) -> None:
    source = read_source("a.ipynb", text)
    assert says in source.problem
    assert source.tree is None


def test_old_notebooks_are_read() -> None:
    cells = [{"cell_type": "code", "input": ["x = 1\n"], "language": "python"}]
    assert read_source("a.ipynb", json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3})).text.startswith("x = 1\n")


def _allows(text: str, line: int, id_: str = "CG201") -> bool:
    source = read_source("m.py", text)
    assert source.tree is not None, source.problem
    return allowed(source, Finding("m.py", line, 1, id_, ""))


@pytest.mark.parametrize(
    "comment",
    [
        "# cg: allow CG201 - the value is constant",
        "# cg: allow CG201",
        "#cg:allow CG201",
        "# noqa: F821 # cg: allow CG201 (constant)",
        "# cg: allow CG101, CG201 - both",
        "# cg: allow CG101 CG201",
        "# CG: Allow cg201",
        "# cg: allow device-value-read - by its name",
    ],
)
def test_a_comment_allows_its_line_or_the_one_below(comment: str) -> None:
    assert _allows(f"a = 1\nx.item()  {comment}\nx.item()\n", 2)
    assert not _allows(f"a = 1\nx.item()  {comment}\nx.item()\n", 3)
    assert _allows(f"{comment}\n# more words\nx.item()\n", 3)
    assert not _allows(f"a = 1  {comment}\nx.item()\n", 2)
    assert not _allows(f"x.item()  {comment}\n", 1, "CG202")


def test_a_comment_on_a_def_line_allows_the_function() -> None:
    body = "    y = 1\n    return x.item()\n\n\nx.item()\n"
    for head in (
        "def f(x):  # cg: allow CG201 - why\n",
        "# cg: allow CG201\ndef f(x):\n",
        "# cg: allow CG201\n@wrap\ndef f(x):\n",
        "@wrap\nasync def f(\n    x,\n):  # cg: allow CG201\n",
        "def f(x): # cg: allow CG201\n    # a comment\n",
    ):
        lines = (head + body).split("\n")
        inside, outside = (place for place, line in enumerate(lines, 1) if "item" in line)
        assert _allows(head + body, inside)
        assert not _allows(head + body, outside)


def test_only_real_comments_allow() -> None:
    assert not _allows('x.item("# cg: allow CG201")\n', 1)
    assert not _allows('"""\n# cg: allow CG201\n"""\nx.item()\n', 4)
    assert not _allows("x.item()  # abcg: allow CG201\n", 1)


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("# cg: allow", "names no hazard"),
        ("# cg: allow everything", "names no hazard"),
        ("# cg: allow CG999 - reason", "there is no hazard CG999"),
        ("# cg: ignore CG201", "write `# cg: allow CG201"),
    ],
)
def test_a_comment_that_allows_nothing_is_a_note(comment: str, says: str) -> None:
    source = read_source("m.py", f"a = 1\nx.item()  {comment}\n")
    (note,) = source.notes
    assert note.startswith("m.py:2: ")
    assert says in note
    assert source.allows.get(2, frozenset()) == frozenset()


def test_hazards_are_read_with_their_fields(sample: Path) -> None:
    known = TABLE(sample)
    assert [(entry.id, entry.name, entry.severity) for entry in known.values()] == [
        ("CG101", "changing-python-value", "warning"),
        ("CG201", "device-value-read", "error"),
        ("CG501", "record-stream", "info"),
    ]
    assert known["CG201"].fix == "Keep the value in a tensor and read it after `replay()`."
    assert known["CG201"].why == "The value does not exist while the graph is recorded: the read waits, see streams."


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("- **Fix** Keep it in a tensor.\n", "", "CG101 has no field **Fix**"),
        ("warning: frozen", "bad: frozen", "**Severity** of CG101 begins with none of error, warning, info"),
        ("CG101", "CG201", "CG201 has two sections"),
        ("### ", "## ", "there is no section"),
    ],
)
def test_a_table_with_a_hole_is_one_sentence(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "hazards.md"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(SkillError) as caught:
        TABLE(path)
    assert says in str(caught.value)
    with pytest.raises(SkillError, match="No such file"):
        TABLE(tmp_path / "none.md")


def test_an_unknown_id_loses_no_finding() -> None:
    assert hazards.hazard("CG999").severity == "error"


def _project(folder: Path, table: str) -> Path:
    (folder / "pyproject.toml").write_text(table)
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "a.py").write_text("x = 1\n")
    return folder / "src" / "a.py"


def test_settings_come_from_the_nearest_project_that_has_some(tmp_path: Path) -> None:
    path = _project(tmp_path, '[tool.cudagraph-skill]\nselect = ["CG1", "cg201"]\nexclude = ["old", "src/gen*"]\n')
    (tmp_path / "src" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    chosen = settings(path, Options())
    assert chosen == Options(("CG1", "CG201"), (), ("old", f"{tmp_path}/src/gen*"))
    assert settings(path, Options(ignore=("CG101,CG5",), select=("record-stream",), every=True)) == Options(
        ("CG501",), ("CG101", "CG5"), chosen.exclude, every=True
    )


def test_without_settings_everything_is_reported(tmp_path: Path) -> None:
    assert settings(_project(tmp_path, "[project]\n"), Options()) == Options()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("selct = []", "has the key `selct`"),
        ('select = "CG1"', "`select` must be a list of strings"),
        ("ignore = [1]", "`ignore` must be a list of strings"),
        ('select = ["E501"]', "`E501` is not a hazard"),
        ('select = ["CG9"]', "`CG9` is not a hazard"),
        ("select = [", "not valid TOML"),
    ],
)
def test_wrong_settings_name_file_and_key(table: str, says: str, tmp_path: Path) -> None:
    path = _project(tmp_path, f"[tool.cudagraph-skill]\n{table}\n")
    with pytest.raises(SkillError) as caught:
        settings(path, Options())
    assert says in str(caught.value)
    assert str(tmp_path / "pyproject.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        ((), (), True),
        (("CG2",), (), True),
        (("CG1",), (), False),
        ((), ("CG2",), False),
        (("CG201",), ("CG2",), True),
        (("CG2",), ("CG201",), False),
        (("CG201",), ("CG201",), False),
    ],
)
def test_the_longest_beginning_decides(select: tuple[str, ...], ignore: tuple[str, ...], expected: bool) -> None:
    assert chosen("CG201", Options(select, ignore)) is expected


def test_folders_are_read_without_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.py", "a.ipynb", "c.txt", ".venv/x.py", "old/y.py", "sub/z.py", "sub/gen_a.py", "__pycache__/p.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    sources = expand([".", "b.py"], Options(exclude=("old", f"{tmp_path}/sub/gen*")))
    assert [source.path for source in sources] == ["a.ipynb", "b.py", "sub/z.py"]
    assert excluded(Path("old"), Options(exclude=("o*",)))


def test_a_file_may_have_colons_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run:2:best.py"
    path.write_text("def step(): ...\n")
    assert split(str(path)) == (str(path), None)
    assert split(f"{path}:Model.step") == (str(path), "Model.step")


def test_names_are_those_that_can_be_given() -> None:
    text = "def a():\n    def b(): ...\nclass C:\n    if x:\n        def d(self): ...\ntry: ...\nexcept E:\n    def e(): ...\n"
    source = read_source("m.py", text)
    assert source.tree
    assert names(source.tree) == ["a", "a.b", "C", "C.d", "e"]
    assert "did you mean `C.d`? it has: a, a.b, C, C.d, e" in str(no_function(source, "d"))
    many = read_source("m.py", "".join(f"def step{number}(): ...\n" for number in range(40)))
    assert str(no_function(many, "stop")).endswith("and 28 more")
    assert "no function at all" in str(no_function(read_source("m.py", "x = 1\n"), "f"))


def test_a_source_can_be_made_without_comments() -> None:
    assert Source("m.py", "", [], None, "x").allows == {}
