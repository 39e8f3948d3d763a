"""Completions: values of the arguments of prompts and resource templates that begin with, or contain, what was typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread
from mcp_types import Completion, PromptReference

from cudagraph_skill_server import opening, prompts, sections, skills

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_types import CompletionArgument, CompletionContext, ResourceTemplateReference

_MOST = 100  # values that the protocol allows in one answer


async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    """Return values for one argument, those that begin as typed first; none where it takes any text."""
    place = ref.name if isinstance(ref, PromptReference) else ref.uri
    chosen = (context.arguments if context else None) or {}
    known = await anyio.to_thread.run_sync(_known, place, argument.name, chosen)
    found = _matching(argument.value, known)
    return Completion(values=found[:_MOST], total=len(found), has_more=len(found) > _MOST)


def _known(place: str, argument: str, chosen: Mapping[str, str]) -> Iterable[str]:
    """Return all values that an argument of a prompt or template may have."""
    match place, argument:
        case (sections.ID, "id") | (prompts.FAILED, "id"):
            return _ids()
        case prompts.LOOP, "workflow":
            from cudagraph_skill.scaffold.options import WORKFLOWS

            return WORKFLOWS
        case sections.FILE, "path":
            return skills.names()
        case sections.SECTION, "path":
            return dict.fromkeys(section.path for section in opening.index().sections())
        case sections.SECTION, "heading":
            return [section.anchor for section in opening.index().sections() if section.path == chosen.get("path")]
    return ()


def _ids() -> Iterable[str]:
    """Return the ids that `explain` knows, a hazard's number and its name."""
    from cudagraph_skill.corpus import load

    kinds = (load.is_entry, load.is_cause, load.is_hazard, load.is_constraint, load.is_library)
    known = opening.index().sections()
    named = [section for is_kind in kinds for section in known if is_kind(section)]
    return dict.fromkeys(name for section in named for name in load.names(section)[:2])


def _matching(typed: str, known: Iterable[str]) -> list[str]:
    wanted = typed.casefold()
    found = [value for value in known if wanted in value.casefold()]
    return sorted(found, key=lambda value: not value.casefold().startswith(wanted))
