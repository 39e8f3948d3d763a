"""Join the code cells of a notebook to one Python text, without what only IPython understands.

No line moves inside its cell, and each line of the text knows its cell. Standard library only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_PYTHON_CELLS = ("capture", "prun", "time", "timeit")  # cell magics whose body is Python
_MAGIC = re.compile(
    r"^(\s*)(?:%{1,2}[A-Za-z_]|!|\?{1,2}\s*[\w.%*]|[\w.,\[\]() ]+?=\s*(?:!|%[A-Za-z_])|%{0,2}[\w.*]+\?{1,2}\s*$)"
)
_MARKS = re.compile(r"""#|\"\"\"|'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[()\[\]{}]""")


class Cells(NamedTuple):
    """Hold the joined text; `places` has the 1-based code cell and line in that cell for each line of `text`."""

    text: str
    places: list[tuple[int, int]]
    notes: list[str]


def joined(text: str, wrong: Callable[[str], tuple[int, str] | None]) -> Cells:
    """Join the code cells of a notebook. A cell in which `wrong` finds a fault (line and sentence) becomes comments.

    Raises:
        ValueError: this is no notebook, or one of another language; its text is a sentence's end.
    """
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    notes = []
    for number, cell in enumerate(map(_source, _cells(text)), 1):
        code = cell if not cell.strip() or wrong(cell) is None else _without_magics(cell)
        if code != cell or code.strip():
            fault = wrong(code) if code != cell or code.strip() else None
            if fault:
                notes.append(f"cell {number}, line {fault[0]}: {fault[1]}")
                code = "\n".join(f"# {line}" for line in code.split("\n"))
        split = code.split("\n")
        lines += split
        places += [(number, line) for line in range(1, len(split) + 1)]
    return Cells("\n".join(lines) + "\n", places, notes)


def printed(text: str) -> list[tuple[int, str]]:
    """Return what code cells of a notebook printed, tracebacks included: the number of the cell, and the text.

    Raises:
        ValueError: this is no notebook, or one of another language.
    """
    cells = [(number, cell.get("outputs")) for number, cell in enumerate(_cells(text), 1)]
    shown = [
        (number, [_shown(part) for part in parts if isinstance(part, dict)])
        for number, parts in cells
        if isinstance(parts, list)
    ]
    return [(number, "".join(parts)) for number, parts in shown if any(parts)]


def _shown(output: dict[str, Any]) -> str:
    """Return one output as text with a line end; "" for a picture."""
    trace = output.get("traceback")
    if output.get("output_type") in {"error", "pyerr"}:
        lines = trace if isinstance(trace, list) and trace else [f"{output.get('ename')}: {output.get('evalue')}"]
        return "\n".join(map(str, lines)) + "\n"
    data = output.get("data")
    text = _joined(output.get("text", data.get("text/plain", "") if isinstance(data, dict) else ""))
    return text if text.endswith("\n") or not text else f"{text}\n"


def _cells(text: str) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    import json  # noqa: PLC0415 - few files are notebooks

    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no notebook: {error}") from None
    if not isinstance(data, dict):
        raise ValueError("is no notebook: there are no cells in it")
    language = _language(data.get("metadata"))
    if language not in ("", "python", "ipython"):
        raise ValueError(f"is a notebook of {language}, not of Python")
    sheets = data.get("worksheets")
    cells = sheets[0].get("cells") if isinstance(sheets, list) and sheets and isinstance(sheets[0], dict) else data.get("cells")
    if not isinstance(cells, list):
        raise ValueError("is no notebook: there are no cells in it")
    return [cell for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"]


def _language(metadata: Any) -> str:
    for name, key in (("kernelspec", "language"), ("language_info", "name")):
        value = metadata.get(name) if isinstance(metadata, dict) else None
        if isinstance(value, dict) and isinstance(value.get(key), str):
            return str(value[key]).lower()
    return ""


def _source(cell: dict[str, Any]) -> str:
    return _joined(cell.get("source", cell.get("input", ""))).replace("\r\n", "\n").replace("\r", "\n")


def _joined(text: Any) -> str:
    """Return a text that a notebook keeps as one string or as a list of its lines."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def _without_magics(cell: str) -> str:
    lines = cell.split("\n")
    first = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        name = re.match(r"%%(\w*)", lines[first])
        if not name or name[1] not in _PYTHON_CELLS:
            return "\n".join(f"# {line}" for line in lines)
        lines[first] = "# " + lines[first]
    quote, depth, joins = "", 0, False
    for place, line in enumerate(lines):
        magic = None if quote or depth or joins else _MAGIC.match(line)
        if magic:
            lines[place] = f"{magic[1]}pass  # {line.strip()}"
            _comment_continuation(lines, place)
        else:
            quote, depth = _open_after(line, quote, depth)
        joins = not magic and line.endswith("\\") and not line.lstrip().startswith("#")
    return "\n".join(lines)


def _comment_continuation(lines: list[str], place: int) -> None:
    """Return whether a shell command continues on the next line, since it ends in a backslash."""
    while lines[place].endswith("\\") and place + 1 < len(lines):
        place += 1
        lines[place] = f"# {lines[place]}"


def _open_after(line: str, quote: str, depth: int) -> tuple[str, int]:
    """Return the triple quote and the number of brackets that are open after a line."""
    at = 0
    while True:
        if quote:
            at = line.find(quote, at) + 3
            if at < 3:
                return quote, depth
            quote = ""
        match = _MARKS.search(line, at)
        if not match or match[0] == "#":
            return quote, depth
        at = match.end()
        if match[0] in ('"""', "'''"):
            quote = match[0]
        elif len(match[0]) == 1:
            depth = max(0, depth + (1 if match[0] in "([{" else -1))
