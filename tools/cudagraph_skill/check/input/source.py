"""Parse a file or pasted text to a syntax tree with true line numbers: encodings, notebooks, newer syntax, suppressions.

Whatever is wrong with the text becomes a sentence in `problem` or `notes`, never an exception. Standard library only.
"""

from __future__ import annotations

import ast
import codecs
import errno
import os
import re
import stat
import warnings
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.check import hazards
from cudagraph_skill.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.check.findings import Finding

UNREAD = "could not be read as Python"  # stands in every `problem`
_LARGEST = 16 << 20  # bytes; a notebook's pictures count too
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like the mark of UTF-16, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_ALLOW = re.compile(r"(?:^#|[\s#])cg:(?:\s*([\w-]*))((?:\s|,).*)?$", re.IGNORECASE)
_ID = r"CG\d+|[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
_IDS = re.compile(rf"[\s,]*((?:{_ID})(?:\s*,\s*(?:{_ID})|\s+CG\d+)*)", re.IGNORECASE)


class Source(NamedTuple):
    """Hold the text of a file, with plain line ends and no byte order mark. `tree` is None exactly if `problem` says why.

    `cells` is empty, or has for each line of a notebook its cell and the line in it. `allows` has the ids that a comment allows
    on a line; `notes` say what is wrong with such comments, and which cells were not read.
    """

    path: str
    text: str
    cells: list[tuple[int, int]]
    tree: ast.Module | None
    problem: str
    allows: dict[int, frozenset[str]] = {}  # noqa: RUF012 - never changed
    notes: tuple[str, ...] = ()

    def place(self, line: int) -> str:
        """Return `train.py:31`, or `train.ipynb:cell 3:2`."""
        return f"{self.path}:{shown(self.cells, line)}"

    def column(self, line: int, offset: int) -> int:
        """Return the 1-based column, in characters, of a `col_offset` of the tree."""
        lines = self.text.split("\n")
        raw = lines[line - 1].encode("utf-8") if 0 < line <= len(lines) else b""
        return len(raw[:offset].decode("utf-8", "replace")) + 1


class Text(NamedTuple):
    """Hold decoded source before parsing; `encoding` and `mark` are needed to write it back."""

    text: str
    encoding: str
    mark: bytes


def shown(cells: list[tuple[int, int]], line: int) -> str:
    """Return a line as messages show it: `31`, or in a notebook `cell 3:2`."""
    if 0 < line <= len(cells):
        return "cell {}:{}".format(*cells[line - 1])
    return str(line)


def read_source(path: str, data: bytes | str | None = None) -> Source:
    """Read the source at `path`, or `data` under that name."""
    try:
        text, cells, notes, problem = _text(path, file_bytes(path) if data is None else data)
    except OSError as error:
        text, cells, notes, problem = "", [], [], f"{error.strerror}"
    if problem:
        return Source(path, text, cells, None, f"{path}: {UNREAD}: {problem}")
    tree, fault = parsed(text)
    if tree is None:
        line, column, sentence = fault
        return Source(path, text, cells, None, f"{path}:{shown(cells, line)}:{column}: {UNREAD}: {sentence}")
    allows, more = _allowances(path, text, tree, cells) if "cg:" in text.lower() else ({}, [])
    return Source(path, text, cells, tree, "", allows, (*(f"{path}: {note}" for note in notes), *more))


def file_bytes(path: str) -> bytes:
    """Read a file's bytes, at most one more than the limit, which shows that it is too large.

    Raises:
        OSError: it cannot be opened, or is a pipe or a device, which may have no end.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a file; `-` reads standard input")
        return file.read(_LARGEST + 1)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without waiting for somebody to write to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def lines_of(path: str, data: bytes | str | None = None) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the lines of a source and their cells for excerpts; nothing if the file is gone."""
    try:
        text, cells, *_ = _text(path, file_bytes(path) if data is None else data)
    except OSError:
        return [], []
    return text.split("\n"), cells


def allowed(source: Source, finding: Finding) -> bool:
    """Return whether a comment in the source allows this finding: `# cg: allow CG201 - reason`."""
    return finding.id in source.allows.get(finding.line, ())


def decoded(data: bytes) -> Text:
    """Decode bytes of Python source as Python does, but never fail: what is not UTF-8 is read as Latin-1."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return Text(data[len(mark) :].decode(encoding, "replace"), encoding, mark)
    for encoding in (*_cookie(data), "utf-8"):
        try:
            return Text(data.decode(encoding), encoding, b"")
        except (LookupError, ValueError):  # an encoding that Python does not know, or the wrong one
            continue
    return Text(data.decode("latin-1"), "latin-1", b"")


def _cookie(data: bytes) -> Iterator[str]:
    """Yield the encoding that a comment in the first two lines names (PEP 263)."""
    for line in data[:1000].splitlines()[:2]:
        if match := _COOKIE.match(line):
            yield match[1].decode("ascii", "replace")
        if line.strip() and not line.lstrip().startswith(b"#"):
            return


def _text(path: str, data: bytes | str) -> tuple[str, list[tuple[int, int]], list[str], str]:
    """Return the text with plain line ends, the cells of a notebook, notes about them, and why it cannot be Python."""
    if len(data) > _LARGEST:
        return "", [], [], f"it has more than {_LARGEST >> 20} MiB"
    text = decoded(data).text if isinstance(data, bytes) else data.removeprefix("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()  # no lone surrogates
    if "\0" in text or len(_CONTROL.findall(text[:100_000])) > 0.02 * min(len(text), 100_000) + 8:
        return "", [], [], _binary(text)
    if not path.lower().endswith(".ipynb"):
        return text, [], [], ""
    from cudagraph_skill.check.input.notebook import joined  # noqa: PLC0415 - few files are notebooks

    try:
        notebook = joined(text, _fault)
    except ValueError as error:
        return "", [], [], f"it {error}"
    if notebook.notes and not any(line.strip() and not line.startswith("# ") for line in notebook.text.split("\n")):
        return "", notebook.places, [], notebook.notes[0]
    return notebook.text, notebook.places, [f"{note}; this cell is left out" for note in notebook.notes], ""


def _binary(text: str) -> str:
    zeros = text.count("\0")
    if zeros == 0 or zeros > 8 or len(_CONTROL.findall(text)) > zeros + 8:
        return "it is binary data"
    before = text[: text.index("\0")]
    return f"a NUL byte stands at line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def parsed(text: str) -> tuple[ast.Module | None, tuple[int, int, str]]:
    """Return the tree, or line, column and sentence of the syntax error."""
    tree, fault = _parse(text)
    if tree is not None or not fault[0]:
        return tree, fault
    from cudagraph_skill.check.input.newer_syntax import older  # noqa: PLC0415 - few files need it

    again = older(text)
    return (tree, fault) if again == text else _parse(again)


def _fault(text: str) -> tuple[int, str] | None:
    tree, (line, _, sentence) = parsed(text)
    return None if tree else (line, sentence)


def _parse(text: str) -> tuple[ast.Module | None, tuple[int, int, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text), (0, 0, "")
    except SyntaxError as error:
        return None, (
            error.lineno or 1,
            max(error.offset or 1, 1),
            printable((error.msg or "invalid syntax").partition(";")[0]),
        )
    except (RecursionError, MemoryError):
        line, column = _deepest(text)
        return None, (line, column, "the code is nested too deeply here")
    except ValueError as error:
        return None, (1, 1, printable(str(error).partition(";")[0]))


def _deepest(text: str) -> tuple[int, int]:
    """Return the place with the most open brackets, or the longest line if there are few brackets."""
    depth = deepest = at = 0
    for match in re.finditer(r"[()\[\]{}]", text):
        depth += 1 if match[0] in "([{" else -1
        if depth > deepest:
            deepest, at = depth, match.start()
    if deepest < 50:
        lines = text.split("\n")
        longest = max(range(len(lines)), key=lambda place: len(lines[place]))
        return longest + 1, 1
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _allowances(
    path: str, text: str, tree: ast.Module, cells: list[tuple[int, int]]
) -> tuple[dict[int, frozenset[str]], list[str]]:
    """Return the ids that comments allow, by line, and sentences about comments that are wrong."""
    lines = text.split("\n")
    headers = _headers(tree)
    allows: dict[int, frozenset[str]] = {}
    notes = []
    for line, comment in _comments(text):
        match = _ALLOW.search(comment)
        if not match:
            continue
        ids, wrong = _named(match)
        notes += [f"{path}:{shown(cells, line)}: {sentence}" for sentence in wrong]
        target = line if lines[line - 1].split("#")[0].strip() else _next_code(lines, line)
        for covered in headers.get(target, range(target, target + 1)):
            allows[covered] = allows.get(covered, frozenset()) | ids
    return allows, notes


def _comments(text: str) -> Iterator[tuple[int, str]]:
    from cudagraph_skill.check.input.tokens import pieces  # noqa: PLC0415 - few files have such comments

    line = at = 0
    for piece in pieces(text):
        if not piece.quote:
            line, at = line + text.count("\n", at, piece.start), piece.start
            yield line + 1, text[piece.start : piece.end]


def _next_code(lines: list[str], line: int) -> int:
    """Return the line that a stand-alone comment refers to: the next one that is not such a comment."""
    while line < len(lines) and lines[line].lstrip().startswith("#"):
        line += 1
    return line + 1


def _headers(tree: ast.Module) -> dict[int, range]:
    """Map each line from the first decorator to the end of a signature to the lines of its function."""
    headers = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            whole = range(first, (node.end_lineno or node.lineno) + 1)
            for line in range(first, max(node.body[0].lineno, node.lineno + 1)):
                headers[line] = whole
    return headers


def _named(match: re.Match[str]) -> tuple[frozenset[str], list[str]]:
    """Return the ids that a comment allows, and sentences about the words in it that are not known."""
    if match[1].lower() != "allow":
        return frozenset(), [f"`cg: {match[1]}` is not a directive: write `# cg: allow CG201 - reason`"]
    listed = _IDS.match(match[2] or "")
    if not listed:
        return frozenset(), ["`cg: allow` names no hazard and allows nothing: write `# cg: allow CG201 - reason`"]
    known = _known()
    words = re.findall(_ID, listed[1], re.IGNORECASE)
    wrong = [f"`cg: allow {word}`: there is no hazard {word}" for word in words if word.lower() not in known]
    return frozenset(known[word.lower()] for word in words if word.lower() in known), wrong


def _known() -> dict[str, str]:
    """Return ids by what a comment may call them: the id or the name."""
    table = hazards.table()
    return {word: hazard.id for hazard in table.values() for word in (hazard.id.lower(), hazard.name)}
