"""Commands in the Markdown of this pack are ones that the parser takes, with the options that it has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from cudagraph_skill.cli.main import _parsed
from cudagraph_skill.corpus.fences import fences
from cudagraph_skill.errors import SkillError

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for pattern in ("*.md", "docs/*.md", "references/*.md") for path in ROOT.glob(pattern)
)
_INLINE = re.compile(r"`((?:cudagraph-)?skill [^`]+|python tools/\w+\.py [^`]+)`")
_LAUNCHER = re.compile(r"(?:.*/)?tools/(\w+)\.py")
_SHELL = {"|", "||", "&&", ";", ">", "2>", "&", "<", "2>&1", "2>/dev/null"}
_ELLIPSIS = re.compile(r"…|\.\.\.")


_PLACEHOLDERS = {"CLIENT": "claude", "N": "2", "GB": "4", "PORT": "8765", "COMMAND": "search"}
_NAMED_ONLY = re.compile("expected one argument|are required")  # as in "`skill check --target` takes a program"


class Command(NamedTuple):
    """A command of ours, the words after its name, and where it stands; `whole` is one to be typed, others name an option."""

    place: str
    words: list[str]
    whole: bool


def _commands() -> list[Command]:
    found = []
    for page in PAGES:
        for fence in fences(ROOT, [page]):
            if fence.info.split()[:1] in (["bash"], ["console"]):
                lines = fence.code.replace("\\\n", " ").splitlines()
                lines = [line if fence.info == "bash" or line.startswith("$ ") else "" for line in lines]  # the rest is output
                found += [
                    Command(f"{page}:{fence.line + number}", words, whole=True)
                    for number, line in enumerate(lines)
                    for words in _ours(line)
                ]
        text = (ROOT / page).read_text(encoding="utf-8")
        for span in _INLINE.finditer(text):
            place = f"{page}:{text.count(chr(10), 0, span.start()) + 1}"
            found += [Command(place, words, whole=False) for words in _ours(span[1])]
    return found


def _ours(line: str) -> list[list[str]]:
    """Return the words of each command of ours on a line, without its name; none of one that leaves words out."""
    try:
        words = shlex.split(line.removeprefix("$ "), comments=True)
    except ValueError:  # prose in a fence, or a quotation that goes on
        return []
    commands: list[list[str]] = [[]]
    for word in words:
        if word in _SHELL or word.startswith("$("):
            commands.append([])
        else:
            commands[-1].append(word.rstrip(";"))
    return [ours for command in commands if (ours := _of_ours(command)) and not any(map(_ELLIPSIS.search, ours))]


def _of_ours(words: list[str]) -> list[str]:
    """Return the words after the name of the command, with the name of a launcher as the first."""
    while words and (re.fullmatch(r"[A-Z_]+=\S*", words[0]) or words[0] == "sudo"):
        words = words[1:]
    if words[:1] and Path(words[0]).name in ("skill", "cudagraph-skill"):
        return words[1:]
    if words[1:3] == ["-m", "cudagraph_skill"]:
        return words[3:]
    launcher = _LAUNCHER.fullmatch(words[1]) if len(words) > 1 and words[0].startswith("python") else None
    return [launcher[1], *words[2:]] if launcher else []


COMMANDS = _commands()


@pytest.mark.parametrize("command", COMMANDS, ids=[f"{command.place} {' '.join(command.words)}"[:80] for command in COMMANDS])
def test_a_documented_command_is_understood(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        _parsed([_PLACEHOLDERS.get(word, word) for word in command.words])
    except SkillError as error:
        if command.whole or not _NAMED_ONLY.search(str(error)):
            pytest.fail(str(error))
    except SystemExit as end:  # --help and --version
        if end.code:
            pytest.fail(capsys.readouterr().err)


def test_many_commands_are_documented() -> None:
    assert len(COMMANDS) > 200
