"""Follow a shell script to the commands that it runs, with their words and their environment, without running anything.

What is followed: quotes, comments, continued lines, variables and arrays, `export`, `${NAME:-default}`, functions, loops over
known words, here-documents, `bash -c` and `eval`, `source FILE` of a file beside the script (for its variables), and conditions on known
values. A condition that is not known counts as met, where the caller names no other way.
What is not: command substitution and arithmetic; their words are unread.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cudagraph_skill.config.input.expand import (
    ASSIGNMENT,
    Variable,
    Variables,
    Word,
    assign_default,
    assigned,
    expanded,
    own_names,
    placeless,
)
from cudagraph_skill.config.input.tokens import Token, tokens
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_EXPORTING = ("export", "declare", "readonly", "local", "typeset", "env")
_KEPT = ("readonly", "local", "typeset")  # of these, only `-x` exports
_OPENING = {"if": "fi", "while": "done", "until": "done", "for": "done", "case": "esac", "{": "}"}
_SHELLS = ("bash", "sh", "zsh", "dash")
_CONTAINERS = ("docker", "podman", "mpirun", "mpiexec", "apptainer", "singularity", "srun", "sbatch", "torchx")
_DEEPEST = 40  # blocks, functions, and scripts in scripts
_MOST_CALLS = 8  # functions in functions
_MOST_STEPS = 20_000  # commands, those of a loop counted each time
_MOST_TURNS = 20  # of a loop
WIDTH = 10_000_000  # more characters than a file has that is read
_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}


@dataclass
class Command:
    """A command with the variables that are set for it.

    Attributes:
        environment: Exported variables and those written before the command.
    """

    words: list[Word]
    environment: dict[str, Word]


@dataclass
class Script:
    """What a script runs, and what it only defines.

    Attributes:
        conditions: Conditions that are not known, by their offset: how many ways lead on. Those of a file that is sourced have a
            negative key: the offset of `source` times WIDTH, and then theirs.
        both_ways: Whether an `if` that is not known has another branch.
        taken: The way that was taken at each.
        sourced: Places of `source FILE` whose file was not read.
        steps: Statements that were followed.
    """

    commands: list[Command] = field(default_factory=list)
    variables: Variables = field(default_factory=Variables)
    functions: dict[str, list[Token]] = field(default_factory=dict)
    conditions: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    both_ways: bool = False
    sourced: list[tuple[int, int]] = field(default_factory=list)
    steps: int = 0

    @property
    def environment(self) -> dict[str, Word]:
        """Return the exported variables."""
        found = {}
        for name, place in self.variables.exported.items():
            variable = self.variables.values.get(name)
            if variable is not None:
                found[name] = Word(variable.text, place.start, place.end, variable.unread)
        return found


def parse(
    text: str,
    start: int,
    end: int,
    given: Mapping[str, str],
    *,
    met: bool = True,
    ways: Mapping[int, int] | None = None,
    beside: Callable[[str], str | None] = lambda _: None,
) -> Script:
    """Return the commands of the script between two offsets, in order.

    Args:
        text: What holds the script.
        start: Where it begins.
        end: Where it ends.
        given: The environment of the run.
        met: Whether conditions that are not known count as met.
        ways: The way to take at a condition that is not known, by its offset.
        beside: Returns the text of a file that the script names, None where there is none.
    """
    script = Script()
    script.variables.own = own_names(text[start:end])
    script.variables.values = {name: Variable([Word(value, 0, 0)] if value else []) for name, value in given.items()}
    runner = _Runner(text, script, beside, met=met, ways=ways or {})
    runner.block(tokens(text, start, end))
    script.steps = runner.steps
    return script


class _Runner:
    """Follow tokens of one text; `depth` counts blocks in blocks."""

    def __init__(
        self, text: str, script: Script, beside: Callable[[str], str | None], *, met: bool, ways: Mapping[int, int]
    ) -> None:
        self.beside = beside
        self.place: tuple[int, int] | None = None  # where the text is sourced, and what stands before it there
        self.met = met
        self.ways = ways
        self.text = text
        self.script = script
        self.depth = 0
        self.calls = 0
        self.steps = 0

    # Structure

    def block(self, block: Sequence[Token]) -> None:
        """Follow the statements of a block.

        Raises:
            SkillError: The script is deeper, or runs longer, than a script that starts a training.
        """
        self.depth += 1
        if self.depth > _DEEPEST:
            raise SkillError(
                f"skill config: the script nests more than {_DEEPEST} blocks and functions; give its last command alone"
            )
        self._statements(block)
        self.depth -= 1

    def _statements(self, block: Sequence[Token]) -> None:
        at = 0
        skipped = False  # by `test && …`
        while at < len(block):
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise SkillError(
                    f"skill config: the script runs more than {_MOST_STEPS} commands, those of loops counted each time; give its last "
                    "command alone"
                )
            if block[at].kind != "word" or self._word(block[at]) in ("!", "time", "then", "do", "else"):
                skipped = skipped and self._word(block[at]) not in ("\n", ";")
                at += 1
                continue
            if self._word(block[at]) in _OPENING:
                end = self._closing(block, at)
                if not skipped:
                    self._compound(block[at:end])
            else:
                end = self._simple_end(block, at)
                if name := self._function(block, at):
                    end = self._closing(block, self._brace(block, at))
                    self.script.functions[name] = list(block[self._brace(block, at) + 1 : end - 1])
                elif not skipped:
                    self._simple(block[at:end], block)
            skipped = skipped or self._cut_off(block, at, end)
            at = end

    def _cut_off(self, block: Sequence[Token], at: int, end: int) -> bool:
        """Return whether `test &&` or `test ||` keeps what follows from running."""
        following = self._word(block[end]) if end < len(block) else ""
        if following not in ("&&", "||"):
            return False
        met = self._condition(block[at:end])
        if met is None and self._word(block[at]) in ("[", "[[", "test"):
            return self._way(block[at], 2) == 1
        return met is (following == "||")

    def _way(self, condition: Token, ways: int, usual: int = 0) -> int:
        """Return which way to take at a condition that is not known."""
        key = condition.start if self.place is None else -(self.place[0] * WIDTH + self.place[1] + condition.start + 1)
        self.script.conditions[key] = max(ways, self.script.conditions.get(key, 0))
        self.script.taken[key] = way = min(self.ways.get(key, usual), ways - 1)
        return way

    def _word(self, token: Token) -> str:
        return self.text[token.start : token.end] if token.kind != "heredoc" else ""

    def _simple_end(self, block: Sequence[Token], at: int) -> int:
        """Return the index behind a simple command; an operator in `[[ ]]` or of a redirection is part of it."""
        inside = self._word(block[at]) == "[["
        while at < len(block):
            word = self._word(block[at])
            inside = inside and word != "]]"
            if block[at].kind != "word" and not inside and word not in ("<", ">", ">>", "&>", "<<<"):
                break
            at += 1
        return at

    def _closing(self, block: Sequence[Token], at: int) -> int:
        """Return the index behind the keyword that closes the one at an index."""
        waiting = []
        start_of_command = True
        for index in range(at, len(block)):
            word = self._word(block[index])
            if start_of_command and word in _OPENING:
                waiting.append(_OPENING[word])
            elif start_of_command and waiting and word == waiting[-1]:
                waiting.pop()
                if not waiting:
                    return index + 1
            start_of_command = block[index].kind != "word" or word in ("then", "do", "else", "elif", "{", "!", *_OPENING)
        return len(block)

    def _function(self, block: Sequence[Token], at: int) -> str:
        """Return the name of a function that is defined at an index."""
        words = [self._word(token) for token in block[at : at + 3]]
        if words[0] == "function" and len(words) > 1 and self._brace(block, at):
            return words[1]
        defined = len(words) > 2 and words[1] == "(" and words[2] == ")" and self._brace(block, at)
        return words[0] if defined else ""

    def _brace(self, block: Sequence[Token], at: int) -> int:
        """Return the index of the brace that opens the body of a function, or 0."""
        for index in range(at + 1, min(at + 6, len(block))):
            if self._word(block[index]) == "{":
                return index
        return 0

    # Compound commands

    def _compound(self, block: Sequence[Token]) -> None:
        keyword = self._word(block[0])
        inner = block[1:-1]
        if keyword == "{":
            self.block(inner)
        elif keyword == "if":
            self._if(block)
        elif keyword == "case":
            self._case(inner)
        elif keyword == "for":
            self._for(inner)
        else:
            condition, body = self._cut(inner, "do")
            met = self._condition(condition)
            if met is (keyword == "until") or (met is None and self._way((condition or block)[0], 2) == 1):
                return
            self.block(body)

    def _if(self, block: Sequence[Token]) -> None:
        """Follow the first branch whose condition is met, or is not known."""
        branches = self._branches(block)
        self.script.both_ways |= len(branches) > 1 and self._condition(branches[0][0]) is None
        open_ones: list[Sequence[Token]] = []  # bodies that may run; none of them where no condition is met
        for condition, body in branches:
            met = self._condition(condition) if condition else True
            if met is not False:
                open_ones.append(body)
            if met:
                break
        else:
            open_ones.append(())
        usual = 0 if self.met or len(branches) == 1 else len(open_ones) - 1
        way = self._way((branches[0][0] or block)[0], len(open_ones), usual) if len(open_ones) > 1 else 0
        self.block(open_ones[way])

    def _branches(self, block: Sequence[Token]) -> list[tuple[Sequence[Token], Sequence[Token]]]:
        """Return the condition and the body of each branch; that of `else` is empty."""
        cuts = [0]
        depth = 0
        for index, token in enumerate(block):
            word = self._word(token)
            begins = index == 0 or block[index - 1].kind == "operator" or self._word(block[index - 1]) in ("then", "else", "do")
            depth += begins and word in _OPENING
            if begins and depth == 1 and word in ("elif", "else"):
                cuts.append(index)
            depth -= begins and word in _OPENING.values()
        cuts.append(len(block) - 1)
        found: list[tuple[Sequence[Token], Sequence[Token]]] = []
        for first, last in pairwise(cuts):
            part = block[first + 1 : last]
            found.append(((), part) if self._word(block[first]) == "else" else self._cut(part, "then"))
        return found

    def _cut(self, block: Sequence[Token], keyword: str) -> tuple[Sequence[Token], Sequence[Token]]:
        index = next((index for index, token in enumerate(block) if self._word(token) == keyword), len(block))
        return block[:index], block[index + 1 :]

    def _case(self, inner: Sequence[Token]) -> None:
        """Follow the branch of the first pattern that fits; where the word is not known, the last one."""
        subject, branches = self._cut(inner, "in")
        word = self._expanded(subject[0]) if subject else []
        known = len(word) == 1 and not word[0].unread
        bodies = self._case_bodies(branches)
        for patterns, body in bodies:
            if known and any(_fits(pattern, word[0].text) for pattern in patterns):
                self.block(body)
                return
        if not known and bodies:
            open_ones = [body for _, body in bodies] + ([] if "*" in bodies[-1][0] else [[]])
            self.block(open_ones[self._way((subject or inner)[0], len(open_ones), len(bodies) - 1)])

    def _case_bodies(self, branches: Sequence[Token]) -> list[tuple[list[str], list[Token]]]:
        found: list[tuple[list[str], list[Token]]] = []
        patterns: list[str] = []
        body: list[Token] | None = None
        for token in branches:
            word = self._word(token)
            if body is None and word == ")":
                body = []
            elif body is None:
                patterns += [] if token.kind == "operator" else [word.strip("\"'")]
            elif word in (";;", ";&", ";;&"):
                found.append((patterns, body))
                patterns, body = [], None
            else:
                body.append(token)
        return [*found, (patterns, body)] if body else found

    def _for(self, inner: Sequence[Token]) -> None:
        head, body = self._cut(inner, "do")
        if len(head) < 2 or self._word(head[1]) != "in":
            if not inner or self._way(inner[0], 2) == 0:
                self.block(body)
            return
        name = self._word(head[0])
        values = [word for token in head[2:] if token.kind == "word" for word in self._expanded(token)]
        for value in values[:_MOST_TURNS]:
            self.script.variables.define(name, Variable([value]), added=False)
            self.block(body)

    # Conditions

    def _condition(self, block: Sequence[Token]) -> bool | None:
        """Return whether a condition is met, None where it is not known."""
        block = [token for token in block if self._word(token) not in ("\n", ";")]
        words = [self._word(token) for token in block]
        if not words:
            return None
        if words[0] == "!":
            met = self._condition(block[1:])
            return None if met is None else not met
        for joint in ("||", "&&"):
            if joint in words:
                return self._joined(block, words.index(joint), joint)
        if words[0] in ("true", ":", "false"):
            return words[0] != "false"
        if words[0] == "((" and words[-1] == "))":
            return self._arithmetic(block[1:-1])
        closing = {"[": "]", "[[": "]]", "test": ""}.get(words[0])
        if closing is None or (closing and words[-1] != closing):
            return None
        return self._test(block[1:-1] if closing else block[1:])

    def _joined(self, block: Sequence[Token], at: int, joint: str) -> bool | None:
        opening = self._word(block[0])
        if opening == "[[" and "]]" not in [self._word(token) for token in block[:at]]:
            left, right = self._test(block[1:at]), self._condition([block[0], *block[at + 1 :]])
        else:
            left, right = self._condition(block[:at]), self._condition(block[at + 1 :])
        deciding = joint == "||"
        if left is deciding or right is deciding:
            return deciding
        return None if left is None or right is None else not deciding

    def _test(self, block: Sequence[Token]) -> bool | None:
        """Decide the inside of `[ … ]`."""
        if block and self._word(block[0]) == "!":
            met = self._test(block[1:])
            return None if met is None else not met
        if len(block) == 2 and self._word(block[0]) in ("-n", "-z"):
            text = self._known(block[1], unset="")
            return None if text is None else bool(text) is (self._word(block[0]) == "-n")
        if len(block) == 1:
            text = self._known(block[0], unset="")
            return None if text is None else bool(text)
        if len(block) != 3:
            return None
        return self._compared(self._known(block[0]), self._word(block[1]), self._known(block[2]), block[2])

    def _compared(self, left: str | None, sign: str, right: str | None, pattern: Token) -> bool | None:
        if left is None or right is None:
            return None
        if sign in _COMPARISONS:
            starred = self._word(pattern)[:1] not in "\"'" and any(char in right for char in "*?[")
            return _fits(right, left) is (sign != "!=") if starred else _COMPARISONS[sign](left, right)
        try:
            return _NUMERIC[sign](float(left), float(right)) if sign in _NUMERIC else None
        except ValueError:
            return None

    def _arithmetic(self, block: Sequence[Token]) -> bool | None:
        """Decide `(( NAME ))` and `(( NAME == 1 ))`."""
        signs = {"==": "-eq", "!=": "-ne", ">": "-gt", ">=": "-ge", "<": "-lt", "<=": "-le"}
        parts = [self._number(token) for token in block]
        if len(parts) == 1 and parts[0] is not None:
            return parts[0] not in ("0", "")
        if len(parts) == 3 and parts[0] is not None and self._word(block[1]) in signs:
            return self._compared(parts[0], signs[self._word(block[1])], parts[2], block[2])
        return None

    def _number(self, token: Token) -> str | None:
        word = self._word(token)
        variable = self.script.variables.values.get(word)
        return variable.text if variable and not variable.unread else self._known(token)

    def _known(self, token: Token, unset: str | None = None) -> str | None:
        """Return the text of a word, None where it is not known; `$#` counts no arguments."""
        if self._word(token) in ("$#", '"$#"', "${#}") and "@" not in self.script.variables.values:
            return "0"
        words = self._expanded(token)
        if any(word.unread for word in words):
            return None
        return " ".join(word.text for word in words) if words else unset

    # Simple commands

    def _expanded(self, token: Token) -> list[Word]:
        return expanded(self.text, token.start, token.end, self.script.variables)

    def _simple(self, block: Sequence[Token], around: Sequence[Token]) -> None:
        """Take up one simple command: assignments alone define variables, before a command they are its environment."""
        block, heredocs = self._without_redirections(block, around)
        exporting = self._word(block[0]) if block and self._word(block[0]) in _EXPORTING else ""
        spans = block[1:] if exporting else block
        options = [self._word(token) for token in spans if self._word(token).startswith("-")] if exporting else []
        before: list[tuple[str, Word, Variable, bool]] = []
        rest = list(spans)
        while rest and (match := ASSIGNMENT.match(self.text, rest[0].start, rest[0].end)):
            before.append(self._assignment(match, rest[0]))
            rest = rest[1:]
            while exporting and exporting != "env" and rest and self._plain(rest[0]):
                rest = rest[1:]
        if exporting == "env" or (rest and not exporting):
            environment = self.script.environment | {name: word for name, word, _, _ in before}
            if rest:
                self._command(rest, environment, heredocs)
            return
        for name, _, variable, added in before:
            self.script.variables.define(name, variable, added=added)
        exports = exporting in ("export", "env") or "-x" in options
        if exporting and exports and exporting not in _KEPT:
            places = {name: word for name, word, _, _ in before}
            places |= {self._word(token): Word("", token.start, token.end) for token in spans if self._plain(token)}
            self.script.variables.exported |= places

    def _plain(self, token: Token) -> bool:
        return bool(re.fullmatch(r"-\w+|[A-Za-z_]\w*", self._word(token)))

    def _assignment(self, match: re.Match[str], token: Token) -> tuple[str, Word, Variable, bool]:
        value = assigned(self.text, match.end(), token.end, self.script.variables)
        return match[1], Word(value.text, token.start, token.end, value.unread), value, bool(match[2])

    def _without_redirections(self, block: Sequence[Token], around: Sequence[Token]) -> tuple[list[Token], list[Token]]:
        """Return the words of a command, and the here-documents that it reads or writes."""
        words = [
            token
            for before, token in zip((None, *block), block, strict=False)
            if token.kind == "word" and not (before and self._word(before) in (">", ">>", "&>", "<", "<<<"))
        ]
        written = any(self._word(token) in (">", ">>") for token in block)
        name = self._word(words[0]) if words else ""
        script = (name in ("cat", "tee") and written) or any(self._word(token) in (*_SHELLS, "sbatch") for token in words)
        if not script or not block:
            return words, []
        return words, [token for token in around if token.kind == "heredoc" and token.start > block[-1].end][:1]

    def _command(self, block: Sequence[Token], environment: dict[str, Word], heredocs: Sequence[Token]) -> None:
        name = self._word(block[0])
        if name == "unset":
            for token in block[1:]:
                self.script.variables.values.pop(self._word(token), None)
                self.script.variables.exported.pop(self._word(token), None)
            return
        if name in ("source", "."):
            self._source(block)
            return
        if name == ":":
            for token in block[1:]:
                assign_default(self._word(token), self.script.variables, token.start, token.end)
            return
        for token in heredocs:
            self.block(tokens(self.text, token.start, token.end))
        words = [word for token in block for word in self._expanded(token)]
        if name in self.script.functions:
            self._call(name, words[1:])
            return
        environment = environment | _given_to_container(words)
        inner = _inner_script(words)
        if len(inner) == 1 and self._is_literal(inner[0]):
            self.block(tokens(self.text, inner[0].start + 1, inner[0].end - 1))
        else:
            self._add([part for word in inner or words for part in (inner and word.parts) or (word,)], environment)

    def _source(self, block: Sequence[Token]) -> None:
        """Take up the variables of `source FILE`; its words have no place in this text, so no correction touches them."""
        written = self._word(block[1]) if len(block) > 1 else ""
        words = self._expanded(block[1]) if written else []
        known = len(words) == 1 and not words[0].unread
        # The folder of the script is often a substitution, which is not followed.
        match = None if known else re.fullmatch(r"""["']?(?:\$\([^)]*\)|\$\{[^}]*\}|\$\w+)/([^$`"']+)["']?""", written)
        name = words[0].text if known else match[1] if match else ""
        text = self.beside(name) if name else None
        if text is None or self.calls >= _MOST_CALLS:
            self.script.sourced.append((block[0].start, block[-1].end))
            return
        variables = self.script.variables
        outer = {key: placeless(value) for key, value in variables.values.items()}
        inner = Script(variables=Variables(dict(outer)), conditions=self.script.conditions, taken=self.script.taken)
        runner = _Runner(text, inner, self.beside, met=self.met, ways=self.ways)
        runner.calls = self.calls + 1
        runner.place = (self.place[0], self.place[1] + len(self.text) + 1) if self.place else (block[0].start, 0)
        runner.block(tokens(text, 0, len(text)))
        self.steps += runner.steps
        self.script.both_ways |= inner.both_ways
        changed = {key for key, value in inner.variables.values.items() if placeless(value) != outer.get(key)}
        variables.values |= {key: placeless(inner.variables.values[key]) for key in changed}
        variables.exported |= dict.fromkeys(inner.variables.exported, Word("", 0, 0))

    def _is_literal(self, word: Word) -> bool:
        """Return whether a word stands in the text as one quoted script."""
        return self.text[word.start : word.start + 1] in ("'", '"') and bool(word.parts)

    def _add(self, words: list[Word], environment: dict[str, Word]) -> None:
        if words:
            self.script.commands.append(Command(words, environment))

    def _call(self, name: str, arguments: list[Word]) -> None:
        """Follow a function of the script with its arguments."""
        variables = self.script.variables
        bound = {"@": Variable(arguments, array=True), "*": Variable(arguments, array=True)}
        bound |= {str(index): Variable([word]) for index, word in enumerate(arguments[:9], 1)}
        kept = {key: variables.values.get(key) for key in ("@", "*", *map(str, range(1, 10)))}
        variables.values.update(bound)
        if self.calls < _MOST_CALLS:  # else it calls itself
            self.calls += 1
            self.block(self.script.functions[name])
            self.calls -= 1
        for key, value in kept.items():
            variables.values.pop(key, None)
            if value is not None:
                variables.values[key] = value


def _fits(pattern: str, text: str) -> bool:
    """Return whether a text fits a pattern of `case`."""
    parts = [{"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern]
    return bool(re.fullmatch("".join(parts), text))


def _inner_script(words: Sequence[Word]) -> list[Word]:
    """Return the scripts that a command runs: those of `bash -c` and `eval`."""
    if words and words[0].text == "eval":
        return list(words[1:])
    for index, word in enumerate(words[:-2]):
        if PurePosixPath(word.text).name in _SHELLS:
            option = next((at for at in range(index + 1, len(words) - 1) if re.fullmatch(r"-\w*c", words[at].text)), None)
            return [words[option + 1]] if option else []
    return []


def _given_to_container(words: Sequence[Word]) -> dict[str, Word]:
    """Return the variables that `docker -e`, `mpirun -x` or `srun --export=ALL,…` set."""
    if not words or PurePosixPath(words[0].text).name not in _CONTAINERS:
        return {}
    found: dict[str, Word] = {}
    for before, word in pairwise(words):
        texts = [word.text] if before.text in ("-e", "--env", "-x", "--export") else []
        texts += [word.text.partition("=")[2]] if word.text.startswith(("--env=", "--export=")) else []
        for text in [part for given in texts for part in re.split(r",(?=[A-Za-z_]\w*=)", given)]:
            name, equals, value = text.partition("=")
            if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
                found[name] = Word(value, word.start, word.end, word.unread)
    return found
