"""From a line to the line that decides about it, binds its result, or reads what it is given."""

# ruff: noqa: E501 - a program as a user writes it stands on one line
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.capture.guest import deciding_line
from cudagraph_skill.capture.guest.stack import Frame
from user_files import line_of, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONDITIONS = {
    "if": "if flag:  # wanted\n        y = x  # here",
    "else": "if flag:  # wanted\n        pass\n    else:\n        y = x  # here",
    "elif": "if flag:\n        pass\n    elif x:  # wanted\n        y = x  # here",
    "early return": "if flag:  # wanted\n        return x\n    y = x  # here",
    "early continue": "for i in x:\n        if i:  # wanted\n            continue\n        y = x  # here",
    "early break": "for i in x:\n        if i:  # wanted\n            break\n        y = x  # here",
    "for": "for i in x:  # wanted\n        y = x  # here",
    "while": "while x:  # wanted\n        y = x  # here",
    "ternary": "y = x if flag else 2  # wanted here",
    "the innermost of two": "if flag:\n        for i in x:  # wanted\n            y = x  # here",
    "the condition itself": "if x.sum() > 0:  # wanted here\n        pass",
    "through with and try": "if flag:  # wanted\n        with x:\n            try:\n                y = x  # here\n            finally: x()",
    "an if that does not jump": "if flag:\n        y = 2\n    y = x  # here",
    "a branch that ended before": "if flag:\n        y = 2\n    else:\n        y = 3\n    y = x  # here",
    "outside of the function": "def inner():\n        y = x  # here",
}  # fmt: skip


def frame(tmp_path: Path, body: str, head: str = "def step(x, flag):") -> tuple[Frame, int]:
    """Return the frame at `# here` and the line marked `wanted`, or 0."""
    path = written(tmp_path / "train.py", f"{head}\n    {body}\n")
    wanted = line_of(path, "wanted") if "wanted" in body else 0
    return Frame(str(path), line_of(path, "here"), "step", 0), wanted


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_condition_is_what_decides_whether_a_line_runs(tmp_path: Path, kind: str) -> None:
    at, wanted = frame(tmp_path, CONDITIONS[kind])
    assert deciding_line.condition(at) == wanted


BINDINGS = {
    "attribute": "self.mean = x * 2  # wanted here",
    "entry": "table['a'] = x * 2  # wanted here",
    "one of several": "y, self.mean = x * 2, 3  # wanted here",
    "later": "y = x * 2  # here\n    z = 1\n    self.mean = y + z  # wanted",
    "global": "global MEAN\n    MEAN = x * 2  # wanted here",
    "handed over": "y = x * 2  # here\n    self.all.append(y)  # wanted",
    "in place of an attribute": "self.mean += x * 2  # wanted here",
    "annotated": "self.mean: int = x * 2  # wanted here",
    "a local alone": "y = x * 2  # here\n    return y",
    "another local": "y = x * 2  # here\n    self.mean = x",
    "bound before": "self.mean = y\n    y = x * 2  # here",
    "no assignment": "x.add_(2)  # here",
}


@pytest.mark.parametrize("kind", BINDINGS)
def test_a_binding_is_where_a_result_outlives_the_call(tmp_path: Path, kind: str) -> None:
    at, wanted = frame(tmp_path, BINDINGS[kind], "def step(self, x, table):")
    assert deciding_line.binding(at) == wanted


READINGS = {
    "on the line": "y = x * self.count  # wanted here",
    "through a local": "n = self.count * 2  # wanted\n    y = x * n  # here",
    "through two locals": "n = self.count  # wanted\n    m = n + 1\n    y = x * m  # here",
    "as a loop": "for i in range(self.count):  # wanted\n        y = x * i  # here",
    "counted and used": "self.count += 1  # wanted here",
    "through an unpacked local": "n, m = self.count, 2  # wanted\n    y = x * n  # here",
    "entry": "y = x * table['count']  # wanted here",
    "entry through a local": "n = self.table['count']  # wanted\n    y = x * n  # here",
    "entry counted": "table['count'] += 1  # wanted here",
    "not another entry": "y = x * table['other'] * table[0]  # here",
    "not through another local": "n = self.count\n    m = 2\n    y = x * m  # here",
    "not after the line": "y = x * n  # here\n    n = self.count",
    "not where it is written": "self.count = 3\n    y = x * 2  # here",
    "not another name": "y = x * self.counts  # here",
}


@pytest.mark.parametrize("kind", READINGS)
def test_a_reading_is_where_a_changing_name_feeds_a_line(tmp_path: Path, kind: str) -> None:
    at, wanted = frame(tmp_path, READINGS[kind], "def step(self, x, n=1):")
    assert deciding_line.reading(at, ["count"]) == wanted


VOLATILE = {
    "drawn": "y = x * random.random()  # wanted here",
    "clock": "t = time.time()  # wanted\n    y = x * t  # here",
    "popped": "n = queue.pop()  # wanted\n    y = x * n  # here",
    "environment": "n = int(os.environ['N'])  # wanted\n    y = x * n  # here",
    "fetched": "n = x.item()  # wanted\n    y = x * n  # here",
    "constant": "n = 3\n    y = x * n  # here",
}


@pytest.mark.parametrize("kind", VOLATILE)
def test_what_is_drawn_popped_or_read_from_outside_is_volatile(tmp_path: Path, kind: str) -> None:
    at, wanted = frame(tmp_path, VOLATILE[kind])
    assert deciding_line.volatile(at) == wanted


def test_a_stream_block_is_the_innermost_with_around_a_line(tmp_path: Path) -> None:
    at, wanted = frame(tmp_path, "with a:\n        with side:  # wanted\n            if flag:\n                y = x  # here")
    assert deciding_line.stream_block(at) == wanted
    assert deciding_line.stream_block(at._replace(line=1)) == 0


RULES: list[Callable[[Frame], int]] = [
    deciding_line.condition,
    deciding_line.binding,
    deciding_line.volatile,
    deciding_line.stream_block,
    lambda at: deciding_line.reading(at, ["x"]),
]


@pytest.mark.parametrize("content", ["def step(:\n    if x:\n        y = x\n", "\0", None, ""])
def test_a_file_that_cannot_be_read_or_parsed_decides_nothing(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "broken.py"
    if content is not None:
        path.write_text(content)
    assert [rule(Frame(str(path), 3, "step", 0)) for rule in RULES] == [0] * len(RULES)


def test_a_line_beyond_the_file_decides_nothing(tmp_path: Path) -> None:
    at, _ = frame(tmp_path, "y = x  # here")
    assert [rule(at._replace(line=99)) for rule in RULES] == [0] * len(RULES)


def test_the_first_frame_is_the_innermost_for_which_a_rule_names_a_line(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.py",
        """
        def outer(x):
            if x:
                middle(x)


        def middle(x):
            for i in x:
                inner(x)


        def inner(x):
            return x * 2
        """,
    )
    lines = [line_of(path, each) for each in ("    middle(x)", "    inner(x)", "x * 2")]
    stack = [Frame(str(path), line, "", 0) for line in lines]
    found = deciding_line.first(stack, deciding_line.condition)
    assert found is not None
    assert found.line == line_of(path, "for i")
    assert deciding_line.first(stack, deciding_line.stream_block) is None
