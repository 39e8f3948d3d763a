"""Reports: one HTML file that loads and runs nothing, whatever stands in a result, and a trace for Perfetto."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.capture import session
from cudagraph_skill.capture.request import Request
from cudagraph_skill.report import html, of_tune, perfetto
from cudagraph_skill.report.page import Bar, Cell, Lane, Page, Part, Span, Split, Table
from cudagraph_skill.text import Steps
from cudagraph_skill.tune import trials

if TYPE_CHECKING:
    from pathlib import Path

VOID = {"meta", "rect", "br"}
STEPS = Steps(read=str, turn=str, ask=str, explain=str)
NASTY = "<script>alert(1)</script>\"'&\x1b[31m"


class Checked(HTMLParser):
    """Reads a page: its text, and what would load something; each element that is opened has to be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.loads: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what would load or run something."""
        self.tags.append(tag)
        self.loads += [
            (name, value or "") for name, value in attrs if name in ("src", "href", "action") or name.startswith("on")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.text.append(data)


PAGE = Page(
    title=f"skill decide: {NASTY}",
    verdict="graph",
    said=NASTY,
    next="skill read x",
    bars=[Bar("now", "now", 2e-3, 1e-3, 3e-3, "2 ms"), Bar("limit", "limit", 1e-5, 1e-5, 1e-5, "10 us")],
    limit=1e-5,
    splits=[Split("now", [Part(NASTY, "idle", 1e-3), Part("work", "work", 1e-3)])],
    lanes=[Lane("GPU works", [Span(0.0, 1e-3, "work", NASTY), Span(2e-3, 2.5e-3, "work", "gemm")])],
    length=4e-3,
    tables=[Table("kernels", ("kernel", "share"), [[Cell(NASTY, depth=2), Cell("50 %", 0.5)]])],
    notes=[NASTY],
    facts=[("gpu", NASTY)],
)


def test_a_page_loads_and_runs_nothing_whatever_names_it_shows() -> None:
    text = html.rendered(PAGE)
    page = Checked(text)
    assert page.loads == []
    assert "script" not in page.tags
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|@import|url\(", text)
    assert "".join(page.text).count("<script>") >= 5  # told as text


def test_a_page_without_anything_but_a_sentence_is_whole() -> None:
    page = Checked(html.rendered(Page("skill decide: step", "lacking", "no GPU", "skill read SKILL.md")))
    assert {"no GPU", "skill read SKILL.md"} <= {part.strip() for part in page.text}
    assert "svg" not in page.tags


@pytest.mark.parametrize(("part", "whole", "share"), [(1, 4, "25.00"), (5, 4, "100.00"), (-1, 4, "0.00"), (1, 0, "0")])
def test_shares_stay_within_their_track(part: float, whole: float, share: str) -> None:
    assert html.percent(part, whole) == share


def test_few_spans_are_drawn_each_for_itself_and_at_least_a_unit_wide() -> None:
    spans = [Span(0.0, 0.01, "work", "a"), Span(0.05, 0.06, "idle", "b"), Span(0.09, 0.09, "now", "launch")]
    drawn = [(each.start, each.end, each.kind, each.name, each.share) for each in html.drawn(spans, 0.1)]
    assert drawn == [(0, 400, "work", "a", 1), (2000, 2400, "idle", "b", 1), (3600, 3601, "now", "launch", 1)]
    assert html.drawn(spans, 0.0) == []


def test_many_spans_are_drawn_as_dense_as_they_are() -> None:
    spans = [Span(n * 1e-6, n * 1e-6 + 2.5e-7, "work", "gemm") for n in range(50_000)]  # a quarter of the first half
    drawn = html.drawn(spans, 0.1)
    assert [(each.start, each.end, each.kind, each.share) for each in drawn] == [(0, 2000, "work", 0.3)]
    assert drawn[0].name == "50000 together, 30 % of the time"
    mixed = html.drawn([*spans, Span(0.05, 0.1, "idle", "gap")], 0.1)
    assert [(each.start, each.end, each.kind, each.share) for each in mixed if each.kind == "idle"] == [
        (2000, 4000, "idle", 1.0)
    ]


def test_a_trace_for_perfetto_has_a_thread_for_each_lane_and_times_in_microseconds() -> None:
    events = json.loads(perfetto.trace(PAGE))["traceEvents"]
    assert [event["args"]["name"] for event in events if event["name"] == "thread_name"] == ["GPU works"]
    complete = [event for event in events if event["ph"] == "X"]
    assert [(event["ts"], event["dur"], event["tid"]) for event in complete] == [(0.0, 1000.0, 1), (2000.0, 500.0, 1)]
    assert all(isinstance(event["name"], str) and event["name"].isprintable() for event in complete)


NUMBER = (int, float)
FORMAT: dict[str, dict[str, Any]] = {  # of the Trace Event Format: what an event of each phase must have
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": NUMBER, "dur": NUMBER},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}
METADATA = {"process_name": {"name": str}, "thread_name": {"name": str}, "thread_sort_index": {"sort_index": int}}


def test_a_trace_keeps_to_the_trace_event_format_and_no_events_of_a_thread_overlap() -> None:
    streams = [Span(0.0, 3e-6, "work", "gemm"), Span(1e-6, 4e-6, "work", "add"), Span(3e-6, 5e-6, "work", "gemm")]
    written = json.loads(perfetto.trace(replace(PAGE, lanes=[*PAGE.lanes, Lane("streams", streams)])))
    assert set(written) == {"displayTimeUnit", "traceEvents", "otherData"}
    assert written["displayTimeUnit"] in ("ms", "ns")
    ends: dict[int, float] = {}
    for event in written["traceEvents"]:
        required = FORMAT[event["ph"]]
        assert set(event) == {"ph", *required}
        assert all(isinstance(event[name], kind) for name, kind in required.items())
        if event["ph"] == "M":
            assert {name: type(value) for name, value in event["args"].items()} == METADATA[event["name"]]
            continue
        assert 0 <= ends.get(event["tid"], 0) <= event["ts"]
        ends[event["tid"]] = event["ts"] + event["dur"]
    named = [event["args"]["name"] for event in written["traceEvents"] if event["name"] == "thread_name"]
    assert named == ["GPU works", "streams", "streams (2)"]


def test_the_page_of_ways_has_a_bar_for_each_that_was_timed_and_the_code() -> None:
    times = {"eager": 1e-3, "compile": 5e-4, "manual": 1e-4}
    kinds = {"compile": "wrong", "manual": "equal"}
    tried = [
        trials.Trial(
            name,
            trials.Agreement(kinds[name], 0.5, "result", 4) if name in kinds else None,
            [trials.Times(seconds, seconds, seconds, 0.1, 1 << 20)],
        )
        for name, seconds in times.items()
    ]
    answer: dict[str, Any] = {"verdict": "safe", "said": "seen", "causes": []}
    checked = session.joined_result(Request("train.py:step", "python", "."), answer, [], {})
    tuning = trials.Tuning(checked, [*tried, trials.Trial("partial", why=NASTY)])
    page = of_tune.page(tuning, STEPS, "step = Graphed(eager)  # <b>\n")
    assert [(bar.name, bar.kind) for bar in page.bars] == [("eager", "now"), ("compile", "wait"), ("manual", "graph")]
    assert page.bars[1].said.endswith("; wrong, so not taken")
    assert "step = Graphed(eager)  # <b>\n" in Checked(html.rendered(page)).text
    alone = of_tune.page(trials.Tuning(checked), STEPS, "")
    assert (alone.verdict, alone.bars) == ("safe", ())


# The options


def launch_bound() -> dict[str, Any]:
    """Return a trace of three steps, each of ten kernels whose launches come late."""
    events: list[dict[str, Any]] = []
    for step in range(3):
        begin = 1000.0 * step
        events.append({"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin, "dur": 990.0, "args": {}})
        for number in range(10):
            tied = {"correlation": 100 * step + number, "device": 0}
            events.append(
                {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begin + 90 * number, "dur": 5.0, "args": tied}
            )
            events.append({"cat": "kernel", "name": "gemm", "ts": begin + 90 * number + 8, "dur": 20.0, "args": tied})
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "traceEvents": [{"ph": "X", "pid": 1, "tid": 1, **each} for each in events],
    }


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(launch_bound()), encoding="utf-8")
    return path


def test_a_decision_from_a_trace_is_written_as_a_page_and_for_perfetto(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, timeline = trace.with_name("report.html"), trace.with_name("step.json")
    assert cli.main(["decide", "--trace", str(trace), "--html", str(page), "--perfetto", str(timeline)]) == 0
    said = capsys.readouterr().out.splitlines()[0].removeprefix("decide: ")
    checked = Checked(page.read_text(encoding="utf-8"))
    assert said in checked.text
    assert checked.loads == []
    names = [
        event["args"]["name"] for event in json.loads(timeline.read_text())["traceEvents"] if event["name"] == "thread_name"
    ]
    assert names == ["GPU works", "GPU idle", "launches"]
    assert stat.S_IMODE(page.stat().st_mode) == stat.S_IMODE(trace.stat().st_mode)


def test_a_report_that_is_there_stays_unless_it_may_be_replaced(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = trace.with_name("report.html")
    page.write_text("mine", encoding="utf-8")
    command = ["decide", "--trace", str(trace), "--html", str(page)]
    assert cli.main(command) == 2
    assert "it is there already, and stays as it is" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "mine"
    assert cli.main([*command, "--force"]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("report.txt", "its name has to end in .html; for example"),
        ("nowhere/report.html", "there is no folder"),
        (".", "a file is needed"),
        ("a" * 300 + ".html", "name another file"),
        ("a\0.html", "name another file"),
    ],
)
def test_a_name_that_is_no_place_for_a_report_is_told_before_the_work(
    name: str, said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["decide", "--trace", "not-read.json", "--html", str(trace.parent / name)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["map", "decide"])
def test_one_report_is_for_one_callable(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("def make():\n    return {}\n", encoding="utf-8")
    targets = [str(tmp_path / name) for name in ("a.py", "b.py")]
    assert cli.main([command, *targets, "--html", str(tmp_path / "x.html")]) == 2
    assert "--html is for one callable" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_perfetto_is_for_one_callable_and_a_file_whose_name_ends_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("def f(x):\n    return x\n")
    one = f"{tmp_path / 'a.py'}:f"
    assert cli.main(["decide", one, one, "--perfetto", str(tmp_path / "x.json")]) == 2
    assert "--perfetto is for one callable" in capsys.readouterr().err
    assert cli.main(["decide", one, "--perfetto", str(tmp_path / "x.html")]) == 2
    assert "its name has to end in .json" in capsys.readouterr().err
