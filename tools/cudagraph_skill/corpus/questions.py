"""Read questions/NAME.txt: how people ask for each section of references/NAME.md, and where its facts come from.

A block is the anchor of a heading and one value a line:

    # capture-stream-and-warm-up-stream
    ask: which stream does cuda graph capture use
    tell: 3 words of a log that point to this cause
    tell: -2 words that point away from it
    source: torch@2.13 torch/cuda/graphs.py "a phrase of that file"
"""

from __future__ import annotations

from cudagraph_skill.errors import SkillError

KINDS = ("ask", "tell", "source")
Forms = dict[str, list[str]]  # values by their kind


def parse(text: str, shown: str) -> dict[str, Forms]:
    """Return the values of each kind by the anchor of their section.

    Raises:
        SkillError: a line is neither an anchor nor a value, or an anchor stands twice.
    """
    blocks: dict[str, Forms] = {}
    forms: Forms = {}
    for number, line in enumerate(text.split("\n"), 1):
        kind, _, value = line.partition(": ")
        if line.startswith("# ") and line[2:] not in blocks:
            forms = blocks[line[2:]] = {}
        elif blocks and kind in KINDS and value:
            forms.setdefault(kind, []).append(value)
        elif line:
            raise SkillError(f"{shown}:{number}: expected a new `# anchor` or one of `{': `, `'.join(KINDS)}: `", 3)
    return blocks
