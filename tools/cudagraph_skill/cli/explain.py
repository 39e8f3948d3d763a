"""`skill explain`: print one error, cause or hazard, or list their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command
from cudagraph_skill.cli.references import open_references
from cudagraph_skill.cli.terminal import colour, say

if TYPE_CHECKING:
    import argparse

    from cudagraph_skill.corpus.section import Section


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill explain`."""
    new = add_command(
        commands,
        "explain",
        "print one error, cause or hazard, or list all ids",
        "example: skill explain                               (all ids)\n"
        "         skill explain 906\n"
        "         skill explain cudaErrorStreamCaptureUnjoined\n"
        "         skill explain nccl-watchdog\n"
        "         skill explain CG201",
    )
    new.add_argument(
        "name",
        nargs="?",
        metavar="ID|NUMBER|ENUM",
        help="an id that `skill errors` or `skill check` printed, a CUDA error number or enum name",
    )
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    new.set_defaults(run=run, corpus=None)


def run(args: argparse.Namespace) -> int:
    """Print the section of an id, or all ids; return 1 if there is none of that name."""
    from cudagraph_skill.corpus import load, lookup
    from cudagraph_skill.corpus import output as answers
    from cudagraph_skill.text import error_json

    sections = open_references(args).sections()
    if args.name is None:
        return _list_ids(sections, args)
    result = lookup.explain(sections, args.name, next_step.steps(args))
    if isinstance(result, lookup.Missing):
        say(result)
        if args.json:
            print(error_json(result))
        return 1
    if args.json:
        print(answers.section_json(result[0]))
        return 0
    print(answers.section(result[0], colour()))
    for other in result[1:]:
        print(f"also: {next_step.steps(args).explain(load.names(other)[0])}")
    return 0


def known_ids() -> list[str]:
    """Return the ids of all errors, causes and hazards."""
    import argparse

    groups = _by_kind(open_references(argparse.Namespace(corpus=None)).sections())
    return list(dict.fromkeys(_id(section) for group in groups.values() for section in group))


def _id(section: Section) -> str:
    """Return the id of an error, cause or hazard, without the name that follows a hazard's id."""
    return section.headings[-1].split()[0]


def _by_kind(sections: list[Section]) -> dict[str, list[Section]]:
    from cudagraph_skill.corpus import load

    kinds = {
        "errors": load.is_entry,
        "causes": load.is_cause,
        "hazards": load.is_hazard,
        "constraints": load.is_constraint,
        "libraries": load.is_library,
    }
    return {kind: [section for section in sections if of_kind(section)] for kind, of_kind in kinds.items()}


def _list_ids(sections: list[Section], args: argparse.Namespace) -> int:
    """Print all ids by kind."""
    from cudagraph_skill.text import as_json

    groups = _by_kind(sections)
    if args.json:
        print(as_json({kind: [section.headings[-1] for section in group] for kind, group in groups.items()}))
        return 0
    for kind, group in groups.items():
        print(f"{kind}:", *(f"  {section.headings[-1]}" for section in group), sep="\n")
    print(f"next: {next_step.program('explain')} ID")
    return 0
