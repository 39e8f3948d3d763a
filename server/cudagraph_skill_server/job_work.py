"""What a job does, in a process of its own: read files or texts that a client gave, and say what is wrong in them.

A job takes arguments and returns a line and data, both ready for JSON. Nothing of the SDK is imported here.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.check import Options, check_paths, check_text
from cudagraph_skill.check import output as findings
from cudagraph_skill.check.input.packages import folders
from cudagraph_skill.check.input.settings import settings
from cudagraph_skill.check.input.source import lines_of
from cudagraph_skill.check.input.targets import split
from cudagraph_skill.config import correct, examine
from cudagraph_skill.config import output as settings_output
from cudagraph_skill.config.reading import arch_of, read_file
from cudagraph_skill.diagnosis import output as diagnosed
from cudagraph_skill.diagnosis.entries import Table, open_table
from cudagraph_skill.diagnosis.log import decoded
from cudagraph_skill.diagnosis.rank import diagnose
from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root

from cudagraph_skill_server.bounding import bounded
from cudagraph_skill_server.files import placed
from cudagraph_skill_server.wording import STEPS, call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Roots = Sequence[str] | None

_PASTED = "<source>"
_SAMPLE = "import torch\n\ng = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    y = torch.ones(2).cuda().sum().item()\n"
_SUFFIXES = {"flags": ".sh", "recipe": ".py", "yaml": ".yaml", "json": ".json", "": ""}


class Done(NamedTuple):
    """An answer: what it says in a line or two, and its fields."""

    line: str
    data: Mapping[str, Any]


@cache
def table() -> Table:
    """Return the error index of this skill."""
    return open_table(skill_root())


def warm() -> None:
    """Load what each job needs, by doing one of each; processes that are forked after it have it."""
    check_text(_SAMPLE, _PASTED, None, Options())
    examine("--cuda-graph-impl local", suffix=".sh")
    table()


def check(asked: Mapping[str, Any], roots: Roots) -> Done:
    """Check Python source; `asked` are the arguments of the tool.

    Raises:
        SkillError: a file is not there, may not be read, or the arguments do not go together.
    """
    path, source, python, offset = asked["path"], asked["source"], asked["python"], asked["offset"]
    if python:
        python = placed(python, None if roots is None else [*roots])
        folders(python)  # raises where there are none
    options = Options(every=asked["every"], explain=asked["explain"], python=python)
    if source is not None:
        report = check_text(source, _PASTED, asked["function"], settings(Path(), options))
    else:
        target = placed(f"{path}:{asked['function']}" if asked["function"] else str(path), roots)
        report = check_paths([target], settings(Path(split(target).path), options))
    reader = findings.Reader(STEPS, lambda name: lines_of(name, source if name == _PASTED else None), every=options.every)
    whole = findings.data(report, reader)
    data = bounded(whole, "findings", offset)
    if "findings" in data["left_out"] and (shown := offset + len(data["findings"])) < len(whole["findings"]):
        data["next"] = f"{data['next']}; the rest: {call('check', {'path': path or ''})[:-1]}, … offset={shown})"
    notes = "".join(f"\nnote: {note}" for note in report.notes[:1])
    return Done(f"{data['summary']}{notes}", data)


def config(asked: Mapping[str, Any], roots: Roots) -> Done:
    """Check settings of Megatron and Transformer Engine; `asked` are the arguments of the tool.

    Raises:
        SkillError: a file is not there or may not be read, or a release or an architecture is none.
    """
    text, path = asked["text"], asked["path"]
    path = placed(path, roots) if path is not None else None
    given, suffix = read_file(path) if path is not None else (text or "", _SUFFIXES[asked["kind"]])
    examined = partial(
        examine,
        suffix=suffix,
        wanted=asked["versions"] or (),
        variables=asked["environment"] or {},
        arch=arch_of(asked["arch"]) if asked["arch"] else None,
        path=Path(path).resolve() if path else None,
    )
    try:
        report = examined(given)
        corrected = correct(given, examined).text
    except SkillError as error:
        raise SkillError(str(error).replace("`--for ", "`versions ").replace("skill config: ", "")) from None
    line = settings_output.text(report, path or "text").rpartition("\n")[2]
    data = settings_output.data(report, corrected if corrected != given else "")
    return Done(line, bounded(data, "violations"))


def errors(asked: Mapping[str, Any], roots: Roots) -> Done:
    """Name the causes of a log.

    Raises:
        SkillError: the log is empty.
    """
    del roots  # a log is given as text
    log = asked["log"]
    verdict = diagnose(decoded(log.encode("utf-8", "surrogateescape")), table())
    found = [f"{n}. {each.cause} ({each.confidence} confidence)" for n, each in enumerate(verdict.diagnoses, 1)]
    ask_again = f'{diagnosed.NOT_OURS}. {diagnosed.ASK_AGAIN}: errors(log="with CUDA graphs: WHAT HAPPENED")'
    return Done("; ".join(found) or ask_again, diagnosed.brief(verdict, STEPS, log))


JOBS: dict[str, Callable[[Mapping[str, Any], Roots], Done]] = {"check": check, "config": config, "errors": errors}
