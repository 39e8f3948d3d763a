"""Tell a program from the log of its run: source that names no error is refused, and of a notebook the outputs are the log."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from cudagraph_skill.check.input.notebook import printed
from cudagraph_skill.check.input.source import parsed
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import operand

# No log has a line that parses as one of these, beside lines that parse as Python too.
_CODE = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.For, ast.While)
_TRACEBACK = re.compile(r'Traceback \(most recent call last\).{0,2000}?\n\W*File "?[^\n"]{1,400}"?, line \d', re.DOTALL)
_NAMED = re.compile(r"#.*(\w(?:Error|Exception)\b|cudaError\w|CUDA error)")  # in a comment, as people quote what a line raised


class Outputs(NamedTuple):
    """What a notebook's code cells printed, as one text; for each of its lines the cell, and the line in its outputs."""

    text: str
    places: list[tuple[int, int]]


def outputs(text: str) -> Outputs | None:
    """Return what a notebook printed; None where the text is no notebook of Python."""
    if text.lstrip()[:1] != "{" or '"cells"' not in text:
        return None
    try:
        cells = printed(text)
    except ValueError:  # another file of JSON
        return None
    lines = [(line, (cell, number)) for cell, shown in cells for number, line in enumerate(shown.split("\n"), 1)]
    return Outputs("\n".join(line for line, _ in lines), [place for _, place in lines])


def refuse(text: str, name: str = "") -> None:
    """Raise for a program that was given as a log, under the name of its file if it has one.

    Raises:
        SkillError: it is a notebook without outputs, or Python source without a traceback in it, unless it was pasted and a
            comment names an error.
    """
    reads = f"`skill check {operand(name) if name else 'FILE'}` reads source; give `errors` what the program printed"
    notebook = outputs(text)
    if notebook is not None and not notebook.text.strip():
        raise SkillError(f"this is a notebook without outputs, not a log: {reads}, or the notebook saved after its run")
    quoted = _TRACEBACK.search(text) or (not name and _NAMED.search(text))
    if notebook is None and _is_python(text, name) and not quoted:
        raise SkillError(f"this looks like Python source, not a log: {reads}")


def _is_python(text: str, name: str) -> bool:
    """Tell whether a text is a program; a single line may be a symptom, of which code is a part."""
    if name.lower().endswith((".py", ".pyi")):
        return True
    tree, _ = parsed(text) if "\n" in text.strip() else (None, None)
    return tree is not None and any(isinstance(node, _CODE) for node in tree.body)
