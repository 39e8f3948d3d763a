"""What a report looks like in each form, and mechanical corrections, on reports made by hand."""

from __future__ import annotations

import codecs
import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import fixes, output
from cudagraph_skill.check.findings import Edit, Finding, Region, Report, Unread
from cudagraph_skill.check.input.source import UNREAD, lines_of
from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import Steps
from hazard_sample import sample

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["sample"]  # a fixture

STEPS = Steps(
    read=lambda ref: f"skill read {ref}",
    turn=str,
    ask=str,
    explain=lambda name: f"skill explain {name}",
    check=lambda target: f"skill check {target}",
)
STEP = Region("train.py", 1, "step", "named")
ITEM = Finding("train.py", 3, 13, "CG201", "`loss.item()` waits for the GPU", ("train.py:9 in outer", "train.py:3 in step"))
FROZEN = Finding("train.py", 2, 5, "CG101", "`self.t` is a constant in the graph", certain=False)
KEPT = Finding("train.py", 4, 5, "CG501", "`x.record_stream(s)` keeps memory")
LONG = Unread("train.py", 20, "Runner.capture", "it is too long")
SOURCE = "def step(x):\n    self.t += 1\n    scale = \tloss.item()\n    x.record_stream(s)\n"
READER = output.Reader(STEPS, lambda _: (SOURCE.split("\n"), []))


@pytest.fixture(autouse=True)
def _own_table(sample: Path) -> None:
    assert sample.is_file()


def _report(
    *findings: Finding, regions: tuple[Region, ...] = (STEP,), notes: tuple[str, ...] = (), unread: tuple[Unread, ...] = ()
) -> Report:
    return Report(list(findings), list(regions), list(notes), list(unread))


@pytest.mark.parametrize(
    ("report", "verdict", "code", "summary", "step"),
    [
        (
            _report(ITEM, FROZEN, KEPT),
            "fails",
            1,
            "step cannot be graphed as it stands: 1 line fails at capture, 1 goes silently wrong; "
            "first train.py:3 (`loss.item()`): keep the value in a tensor and read it after `replay()`.",
            "skill explain CG201",
        ),
        (
            _report(FROZEN, FROZEN._replace(line=3)),
            "wrong",
            1,
            "step can be captured, but its replay goes silently wrong at 2 lines; "
            "first train.py:2 (`self.t`): keep it in a tensor.",
            "skill explain CG101",
        ),
        (
            _report(KEPT),
            "clean",
            0,
            "step: no errors, no warnings, 1 note. Next: verify replay against eager.",
            f"skill read {output.COMPARE}",
        ),
        (
            _report(regions=(STEP, Region("train.py", 7, "<module>", "torch.cuda.graph"))),
            "clean",
            0,
            "2 captured regions (step, train.py:7): no errors, no warnings. Next: verify replay against eager.",
            f"skill read {output.COMPARE}",
        ),
        (
            _report(regions=()),
            "nothing",
            0,
            "no captured region found: name the captured function as FILE:FUNCTION, or check every forward() with --all",
            "skill check FILE:FUNCTION",
        ),
        (
            _report(regions=(), notes=(f"a.py:1:2: {UNREAD}: invalid syntax",)),
            "unread",
            2,
            f"nothing was checked: 1 file {UNREAD}",
            "correct the syntax, then check again",
        ),
        (
            _report(regions=(), notes=(f"README.md:1:2: {UNREAD}: invalid syntax", f"a.py: {UNREAD}: it is binary data")),
            "unread",
            2,
            f"nothing was checked: 2 files {UNREAD}",
            "name Python source that can be read",
        ),
        (
            _report(KEPT, unread=(LONG, LONG._replace(line=30))),
            "partial",
            4,
            "captured code was not read in full: train.py:20 (Runner.capture) and 1 other place; nothing was found in step",
            "skill check FILE:FUNCTION",
        ),
        (
            _report(regions=(), unread=(LONG,)),
            "partial",
            4,
            "captured code was not read in full: train.py:20 (Runner.capture)",
            "skill check FILE:FUNCTION",
        ),
        (
            _report(FROZEN, unread=(LONG,)),
            "wrong",
            1,
            "step can be captured, but its replay goes silently wrong at 1 line; "
            "first train.py:2 (`self.t`): keep it in a tensor.",
            "skill explain CG101",
        ),
    ],
)
def test_a_report_ends_in_one_sentence_and_one_command(
    report: Report, verdict: str, code: int, summary: str, step: str
) -> None:
    assert (output.verdict(report), output.exit_code(report)) == (verdict, code)
    for form in ("full", "concise", "github"):
        assert output.written(report, form, READER).split("\n")[-2:] == [summary, f"next: {step}"]
    data = json.loads(output.written(report, "json", READER))
    assert (data["verdict"], data["summary"], data["next"]) == (verdict, summary, step)


def test_who_asked_for_every_function_is_not_told_to_ask_for_them() -> None:
    said = output.summary(_report(regions=()), READER._replace(every=True))
    assert said.startswith("no forward() and no function that seems to take tensors was found")
    assert "--all" not in said


def test_a_named_file_that_was_not_read_is_no_success() -> None:
    report = _report(notes=(f"b.py:1:2: {UNREAD}: invalid syntax",))
    assert output.exit_code(report, {"a.py"}) == 0
    assert output.exit_code(report, {"a.py", "b.py"}) == 2
    assert output.exit_code(_report(ITEM, notes=tuple(report.notes)), {"b.py"}) == 1


def test_code_that_was_not_read_is_named_in_every_form() -> None:
    report = _report(unread=(LONG,))
    line = "train.py:20: not read: Runner.capture: it is too long"
    for form in ("full", "concise"):
        assert line in output.written(report, form, READER).split("\n")
    assert f"::warning file=train.py,line=20::{line}" in output.written(report, "github", READER).split("\n")
    data = json.loads(output.written(report, "json", READER))
    assert data["unread"] == [{"path": "train.py", "line": 20, "name": "Runner.capture", "reason": "it is too long"}]
    (run,) = json.loads(output.written(report, "sarif", READER))["runs"]
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == line


def test_full_shows_line_caret_reason_fix_and_way() -> None:
    assert output.written(_report(ITEM, FROZEN), "full", READER).split("\n\n")[:-1] == [
        "train.py:2:5: CG101 warning `self.t` is a constant in the graph (likely; only a run can tell)\n"
        "  2 |     self.t += 1\n"
        "    |     ^\n"
        "  why: The number is a constant in the graph.\n"
        "  fix: Keep it in a tensor.\n"
        "  more: skill explain CG101",
        "train.py:3:13: CG201 error `loss.item()` waits for the GPU\n"
        "  3 |     scale =  loss.item()\n"
        "    |             ^\n"
        "  why: The value does not exist while the graph is recorded: the read waits, see streams.\n"
        "  fix: Keep the value in a tensor and read it after `replay()`.\n"
        "  called from: train.py:9 in outer > train.py:3 in step\n"
        "  more: skill explain CG201",
    ]


def test_the_reason_stands_once_for_each_id_and_each_finding_once() -> None:
    text = output.written(_report(ITEM, ITEM, ITEM._replace(line=4)), "full", READER)
    assert (text.count("why: "), text.count("fix: "), text.count("more: ")) == (1, 2, 1)


def test_concise_is_one_line_for_each_finding() -> None:
    lines = output.written(_report(KEPT, ITEM), "concise", READER).split("\n")
    assert lines[:2] == [
        "train.py:3:13: CG201 error `loss.item()` waits for the GPU",
        "train.py:4:5: CG501 info `x.record_stream(s)` keeps memory",
    ]


def test_json_is_one_line_with_the_documented_keys() -> None:
    text = output.written(_report(ITEM, FROZEN, notes=("a note",)), "json", READER, "--- a")
    assert "\n" not in text
    data = json.loads(text)
    assert set(data) == {"verdict", "summary", "findings", "regions", "notes", "unread", "next", "diff"}
    assert set(data["findings"][1]) == {"path", "line", "column", "id", "name", "severity", "message", "fix", "via"}
    assert data["findings"][0]["certain"] is False
    assert data["findings"][1]["via"] == ["train.py:9 in outer", "train.py:3 in step"]
    assert data["regions"] == [{"path": "train.py", "line": 1, "name": "step", "how": "named"}]
    assert data["notes"] == ["a note"]


def test_annotations_escape_what_github_reads() -> None:
    odd = Finding("a,b:c%.py", 1, 2, "CG201", "100%: `x`,\r\ny")
    first = output.written(_report(KEPT, odd), "github", READER).split("\n")[1]
    assert first == (
        "::error file=a%2Cb%3Ac%25.py,line=1,col=2,title=CG201 device-value-read::"
        "100%25: `x`,%0D%0Ay. Fix: Keep the value in a tensor and read it after `replay()`."
    )
    assert output.written(_report(KEPT), "github", READER).startswith("::notice file=train.py,line=4,")


def test_sarif_has_what_its_readers_need() -> None:
    odd = ITEM._replace(path="a folder/ü.py")
    log = json.loads(output.written(_report(ITEM, FROZEN, odd, KEPT, notes=("a note",)), "sarif", READER))
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in rules] == ["CG101", "CG201", "CG501"]
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    assert [rule["defaultConfiguration"]["level"] for rule in rules] == ["warning", "error", "note"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[1] == {"artifactLocation": {"uri": "train.py"}, "region": {"startLine": 3, "startColumn": 13}}
    assert places[3]["artifactLocation"]["uri"] == "a%20folder/%C3%BC.py"
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "a note"


def test_a_notebook_is_told_by_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    cells = [{"cell_type": "code", "source": source} for source in ("import torch\n\nx = 1", "y = 2\nz = x.item()")]
    path.write_text(json.dumps({"cells": cells}))
    finding = Finding(str(path), 5, 5, "CG201", "`x.item()` waits for the GPU")
    report, reader = _report(finding, regions=(Region(str(path), 1, "step", "named"),)), output.Reader(STEPS, lines_of)
    text = output.written(report, "full", reader)
    assert f"{path}:cell 2:2:5: CG201 error" in text
    assert "\n  2 | z = x.item()\n    |     ^\n" in text
    assert json.loads(output.written(report, "json", reader))["findings"][0]["cell"] == "cell 2:2"
    assert f"file={path},title=CG201 device-value-read::cell 2:2: `x.item()`" in output.written(report, "github", reader)
    assert '"startLine": 1\n' in output.written(report, "sarif", reader)  # its readers want a line, and a notebook has none


def test_code_cannot_steer_the_terminal_and_long_lines_are_cut() -> None:
    line = "x = '\x1b]0;evil\a' + '" + "é" * 300 + "日本'; y.item()" + " " * 300
    column = line.index("y.item") + 1
    finding = Finding("a\x1b.py", 1, column, "CG201", "`'\x1b[2J'` and\nmore")
    text = output.written(_report(finding), "full", output.Reader(STEPS, lambda _: ([line], [])))
    assert "\x1b" not in text
    assert "\a" not in text
    shown, caret = text.split("\n")[1:3]
    assert len(shown) < 160
    assert caret.index("^") == shown.index("y.item") + len("日本")


def test_a_line_that_is_gone_or_in_colour_is_shown_as_far_as_it_goes() -> None:
    text = output.written(_report(ITEM), "full", output.Reader(STEPS, lambda _: ([], []), colour=True))
    assert "\x1b[1;31merror\x1b[0m" in text
    assert " | " not in text


def _mend(path: Path, data: bytes, *edits: Edit) -> list[fixes.Patch]:
    path.write_bytes(data)
    findings = [Finding(str(path), edit.first, edit.column + 1, "CG201", "x", edit=edit) for edit in edits]
    notes: list[str] = []
    made = fixes.patches(_report(*findings), notes, ["/"])
    assert notes == []
    for patch in made:
        fixes.apply(patch)
    return made


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        (b"a = f(x)\n", Edit(1, 4, 1, 8, "g(x)"), b"a = g(x)\n"),
        ("é = f(x)\n".encode(), Edit(1, 5, 1, 9, "g(x)"), "é = g(x)\n".encode()),
        (codecs.BOM_UTF8 + b"a = 1\n", Edit(1, 4, 1, 5, "2"), codecs.BOM_UTF8 + b"a = 2\n"),
        (b"a = 1\r\nb = (1,\r\n  2)\r\n", Edit(2, 4, 3, 4, "1\nc = 2"), b"a = 1\r\nb = 1\r\nc = 2\r\n"),
        (b"a = 1\nb = 2\r\nc = 3", Edit(3, 4, 3, 5, "4"), b"a = 1\nb = 2\r\nc = 4"),
        ("# coding: latin-1\né = 1\n".encode("latin-1"), Edit(2, 5, 2, 6, "2"), "# coding: latin-1\né = 2\n".encode("latin-1")),
        ("a = 1\n".encode("utf-16"), Edit(1, 4, 1, 5, "2"), "a = 2\n".encode("utf-16")),
        (b"x = '\x0c'\ny = 1\n", Edit(2, 4, 2, 5, "2"), b"x = '\x0c'\ny = 2\n"),
    ],
)  # fmt: skip
def test_a_correction_keeps_everything_else(before: bytes, edit: Edit, after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.touch(0o640)
    _mend(path, before, edit)
    assert path.read_bytes() == after
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_edits_that_overlap_wait(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    edits = (
        Edit(1, 4, 1, 8, "g(x)"),
        Edit(1, 6, 1, 7, "y"),
        Edit(2, 0, 2, 0, "# a\n"),
        Edit(2, 0, 2, 0, "# b\n"),
        Edit(2, 0, 2, 0, "# a\n"),
    )
    (made,) = _mend(path, b"a = f(x)\nb = 1\n", *edits)
    assert path.read_text() == "a = g(x)\n# a\nb = 1\n"
    assert (made.edits, made.left) == (2, 2)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("")
    link = tmp_path / "a.py"
    link.symlink_to("real.py")
    _mend(link, b"a = 1\n", Edit(1, 4, 1, 5, "2"))
    assert link.is_symlink()
    assert (tmp_path / "real.py").read_text() == "a = 2\n"


def test_the_diff_is_one_that_patch_applies(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\n\tb = '\x1b'\nc = 3".replace("\t", ""))
    finding = Finding("a.py", 3, 1, "CG201", "x", edit=Edit(3, 4, 3, 5, "4"))
    (made,) = fixes.patches(_report(finding), [], [], {"a.py": path.read_bytes()})
    text = fixes.diff(made)
    assert text.split("\n")[:3] == ["--- a/a.py", "+++ b/a.py", "@@ -1,3 +1,3 @@"]
    assert "\x1b" not in text
    plain = tmp_path / "b.py"
    plain.write_bytes(b"a = 1\nc = 3")
    (made,) = fixes.patches(_report(finding._replace(edit=Edit(2, 4, 2, 5, "4"))), [], [], {"a.py": plain.read_bytes()})
    path.write_bytes(plain.read_bytes())
    done = subprocess.run(["git", "apply", "-"], input=f"{fixes.diff(made)}\n".encode(), cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert path.read_bytes() == b"a = 1\nc = 4"


@pytest.mark.parametrize(
    ("name", "data", "edit", "says"),
    [
        ("a.ipynb", b"{}", Edit(1, 0, 1, 1, "x"), "notebooks"),
        ("site-packages/a.py", b"a = 1\n", Edit(1, 4, 1, 5, "2"), "installed package"),
        ("a.py", b"a = 1\n", Edit(1, 4, 1, 5, "("), "would not be Python"),
        ("a.py", b"a = 1\n", Edit(7, 4, 7, 5, "2"), "no line 7"),
        ("a.py", b"# coding: latin-1\na = 1\n", Edit(2, 4, 2, 5, "'\N{SNOWMAN}'"), "letters that latin-1 lacks"),
        ("a.py", codecs.BOM_UTF8 + b"a = '\xff'\nb = 1\n", Edit(2, 4, 2, 5, "2"), "not valid utf-8"),
        ("none.py", None, Edit(1, 0, 1, 1, "x"), "No such file"),
    ],
)
def test_what_is_not_corrected_is_said_and_left_alone(
    name: str, data: bytes | None, edit: Edit, says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if data is not None:
        path.write_bytes(data)
    notes: list[str] = []
    assert fixes.patches(_report(Finding(str(path), 1, 1, "CG201", "x", edit=edit)), notes, ["/"]) == []
    assert re.match(rf"{path}: not changed: .*{says}", notes[0])
    assert data is None or path.read_bytes() == data


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\n")
    (made,) = fixes.patches(_report(Finding(str(path), 1, 1, "CG201", "x", edit=Edit(1, 4, 1, 5, "2"))), [], ["/"])
    path.write_text("a = 3\n")
    with pytest.raises(SkillError, match="it changed after it was read"):
        fixes.apply(made)
    assert path.read_text() == "a = 3\n"
