"""A section of a reference, and what a search returns."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """One heading of a Markdown file with the text below it, up to the next heading.

    `path` is what a reader opens (relative to the skill's root, or as the user named it), `anchor` the GitHub-style slug,
    `headings` the path of headings down to this one, `first` and `last` its 1-based lines, `text` the Markdown without
    comments and without the heading line. `errors` comes from the comment under the heading; `asks`, `tells` and `sources`
    come from the file's questions.
    """

    path: str
    anchor: str
    headings: tuple[str, ...]
    level: int
    first: int
    last: int
    text: str
    asks: tuple[str, ...]
    errors: tuple[str, ...]
    sources: tuple[str, ...]
    tells: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """Return the name under which `skill read` finds this section again."""
        return f"{self.path}#{self.anchor}"

    @property
    def trail(self) -> str:
        """Return the headings down to this one; the file's title is left out, since `path` says as much."""
        return " > ".join(self.headings[1:] or self.headings)

    @property
    def markdown(self) -> str:
        """Return the section as it is in its file, comment left out."""
        return f"{'#' * self.level} {self.headings[-1]}\n\n{self.text}".rstrip()


class Hit(NamedTuple):
    """A section that answers a question: `passage` is the part of its text that fits the budget, `score` is unit-free."""

    section: Section
    score: float
    passage: str
    whole: bool


class Answer(NamedTuple):
    """What a search found: `hits` best first, or none and the `nearest` sections; `corrected` maps typed to used words.

    `english` are the words of a question in another language that were searched for; None for one in English.
    """

    hits: list[Hit]
    nearest: list[Section]
    corrected: dict[str, str]
    more: bool
    english: str | None = None
