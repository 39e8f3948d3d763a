"""Sections of the references as resources: by the `path#heading` that answers name, or by an id that `explain` knows.

They have a scheme of their own. Below `skill://cuda-graphs/` a host reads nothing but files of the skill that it has verified.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import printable, shortened
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.uri_template import UriTemplate
from mcp_types import ResourceTemplate

from cudagraph_skill_server import opening
from cudagraph_skill_server.skills import ROOT

if TYPE_CHECKING:
    from cudagraph_skill.corpus.lookup import Missing
    from cudagraph_skill.corpus.section import Section
    from cudagraph_skill.text import Steps

FILE, SECTION, ID = f"{ROOT}/{{+path}}", "cuda-graphs://section/{+path}#{heading}", "cuda-graphs://id/{id}"


def templates() -> list[ResourceTemplate]:
    """Return what URIs can be made of."""
    markdown = "text/markdown"
    return [
        ResourceTemplate(
            name="section",
            title="A section of a reference",
            uri_template=SECTION,
            description="By the `path#heading` that `search` and `read` name.",
            mime_type=markdown,
        ),
        ResourceTemplate(
            name="id",
            title="An error, a cause, a hazard or a constraint",
            uri_template=ID,
            description="By the id that `errors`, `check` or `config` gave, such as CG201, or an error's number or enum name.",
            mime_type=markdown,
        ),
        ResourceTemplate(
            name="file", title="A file of the skill", uri_template=FILE, description="References, tools and what they read."
        ),
    ]


def content(uri: str, steps: Steps) -> str | None:
    """Return the section that a URI means, as Markdown; None where the URI is of no template here.

    Raises:
        ResourceNotFoundError: the skill has no such section; the sentence names what is near.
    """
    from cudagraph_skill.corpus import lookup, output

    found: list[Section] | Missing
    if values := _parsed(SECTION).match(uri):
        found = lookup.find(opening.index().sections(), f"{values['path']}#{values['heading']}", steps)
    elif values := _parsed(ID).match(uri):
        try:
            found = lookup.explain(opening.index().sections(), str(values["id"]), steps)
        except SkillError as error:
            raise ResourceNotFoundError(str(error)) from None
    else:
        return None
    if isinstance(found, lookup.Missing):
        raise ResourceNotFoundError(str(found))
    return f"{output.where(found[0])}\n\n{found[0].markdown}\n"


def unknown(uri: str) -> str:
    """Return what to say of a URI that means nothing here."""
    forms = f"{ROOT}/PATH for a file of the skill, cuda-graphs://section/PATH#HEADING, or cuda-graphs://id/ID"
    return f"there is no resource {shortened(printable(uri))}: give {forms}"


@cache
def _parsed(template: str) -> UriTemplate:
    return UriTemplate.parse(template)
