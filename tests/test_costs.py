"""What a call must do is counted from real operations, and its cost is judged; times need a GPU: benchmarks/decisions.py."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill import cli
from cudagraph_skill.capture import cost, session
from cudagraph_skill.capture.guest import calibration, costs, load, tensors, work
from cudagraph_skill.capture.request import Request
from cudagraph_skill.check.output import Reader
from cudagraph_skill.decide import call, call_output
from cudagraph_skill.report import html, of_call, perfetto
from cudagraph_skill.text import Steps
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cudagraph_skill.capture.result import CaptureResult

READER = Reader(Steps(*[str] * len(Steps._fields)), lambda _: ([], []), False)
MEMORY, CACHE = 1e12, 4e12  # bytes a second
FLOAT = 4  # bytes


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[..., work.Work]:
    """Count the work of a call on the CPU as if its tensors were on a GPU."""
    monkeypatch.setattr(work, "_on_gpu", lambda value: [each for each in tensors.tensors(value) if each.numel()])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def counted(function: Callable[..., Any], *args: Any) -> work.Work:
        subject = load.Subject(function, lambda: (args, {}), None, [("", function)], None, "f")
        return work.counted(subject, args, {})

    return counted


# The work


def test_a_product_reads_its_matrices_once_and_writes_its_result(count: Callable[..., work.Work]) -> None:
    a, b = torch.ones(8, 16), torch.ones(16, 32)
    found = count(lambda: a @ b)
    assert [product.flops for product in found.products] == [2 * 8 * 16 * 32]
    assert found.bytes == FLOAT * (8 * 16 + 16 * 32 + 8 * 32)


def test_what_a_call_makes_for_itself_costs_nothing(count: Callable[..., work.Work]) -> None:
    x = torch.ones(1000)
    assert count(lambda: (x.exp() + 1).relu().mul(2).sum()).bytes == FLOAT * (1000 + 1)


def test_memory_that_is_read_again_counts_once(count: Callable[..., work.Work]) -> None:
    x = torch.ones(1000)
    assert count(lambda: (x + 1, x * 2)[0].sum() + (x - 1).sum()).bytes == FLOAT * (1000 + 1)


@pytest.mark.parametrize("change", [lambda x: x.add_(1), lambda x: torch._foreach_add_([x], 1.0)])
def test_memory_that_is_changed_in_place_is_read_and_written(count: Callable[..., work.Work], change: Any) -> None:
    x = torch.ones(1000)

    def changed() -> None:
        change(x)

    assert count(changed).bytes == FLOAT * 2 * 1000


def test_a_table_is_read_where_it_is_looked_up(count: Callable[..., work.Work]) -> None:
    table, places = torch.ones(100_000, 16), torch.arange(4)
    assert count(lambda: functional.embedding(places, table)).bytes == FLOAT * 4 * 16 * 2 + 8 * 4


def test_an_expanded_tensor_is_as_large_as_its_memory(count: Callable[..., work.Work]) -> None:
    x = torch.ones(1, 1).expand(1000, 1000)
    assert count(x.sum).bytes == FLOAT * 2


def test_products_are_found_in_inference_mode_too(count: Callable[..., work.Work]) -> None:
    layer, x = torch.nn.Linear(16, 32), torch.ones(8, 16)

    def forward() -> Any:
        with torch.inference_mode():
            return layer(x)

    assert [product.flops for product in count(forward).products] == [2 * 8 * 16 * 32]


def test_a_form_of_attention_that_the_formula_does_not_know_counts_no_flops(count: Callable[..., work.Work]) -> None:
    query, key = torch.ones(1, 4, 8, 16), torch.ones(1, 2, 8, 16)
    assert count(lambda: functional.scaled_dot_product_attention(query, key, key, enable_gqa=True)).bytes > 0


def test_floats_that_may_be_cut_are_another_kind(count: Callable[..., work.Work]) -> None:
    x, kinds = torch.ones(8, 8), list[str]()
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for cut in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = cut
            kinds += [product.kind for product in count(lambda: x @ x).products]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert kinds == ["float32", "tf32"]


# The floor


def floor(*products: tuple[int, str, int], more: int = 0, cache: int = 0, busy: float = 1.0) -> float:
    given = [work.Product(*product) for product in products]
    rates = calibration.Rates(MEMORY, CACHE, cache, {"bfloat16": 1e14})
    return costs.floor(work.Work(given, sum(product.bytes for product in given) + more), rates, 1e-6, busy)


def test_each_product_takes_what_limits_it() -> None:
    assert floor((10**10, "bfloat16", 10)) == pytest.approx(1e-4)
    assert floor((10, "bfloat16", 10**8)) == pytest.approx(1e-4)
    assert floor((10, "bfloat16", 10), (10, "float8_e4m3fn", 10)) == pytest.approx(2e-6)


def test_bytes_that_no_product_reads_limit_it_too() -> None:
    assert floor((10, "bfloat16", 10), more=10**9) == pytest.approx(1e-3)


def test_what_fits_into_the_cache_is_moved_at_its_rate() -> None:
    assert floor((10, "bfloat16", 4 * 10**6), cache=10**7) == pytest.approx(1e-6)
    assert floor((10, "bfloat16", 4 * 10**6)) == pytest.approx(4e-6)


def test_a_call_without_products_takes_a_kernel() -> None:
    assert floor() == pytest.approx(1e-6)


def test_a_call_that_is_faster_than_the_rates_is_at_the_limit() -> None:
    assert floor((10**10, "bfloat16", 10), busy=9e-5) == 9e-5


# What a guest reports

TIMES = {"median": 1e-3, "least": 0.9e-3, "most": 1.2e-3}
GRAPH = {"median": 2e-4, "least": 1.9e-4, "most": 2.1e-4}
GIVEN: dict[str, Any] = {
    "eager": TIMES,
    "submit": 9e-4,
    "graph": GRAPH,
    "capture": 5e-3,
    "memory": 1 << 20,
    "busy": 1.5e-4,
    "nodes": 100.0,
    "nodes_least": 100,
    "nodes_most": 100,
    "kernels": [["gemm", 1e-4], ["add", 5e-5]],
    "captured_busy": 1.5e-4,
    "captured_nodes": 100.0,
    "node": 2e-7,
    "replay": 3e-6,
    "shortest": 1e-6,
    "bytes": 1000,
    "products": {"bfloat16": {"count": 3, "flops": 10**9}},
    "floor": 2e-5,
    "rates": {},
}


def test_a_report_of_other_types_is_no_cost() -> None:
    assert cost.is_costs(GIVEN)
    forged: list[Any] = [
        None,
        [],
        {},
        {**GIVEN, "eager": []},
        {**GIVEN, "submit": "x"},
        {**GIVEN, "graph": 1},
        {**GIVEN, "kernels": [1]},
    ]
    forged += [
        {**GIVEN, "products": {"a": 1}},
        {**GIVEN, "floor": "x"},
        {**GIVEN, "bytes": None},
        {**GIVEN, "capture": None},
        {**GIVEN, "nodes": -1},
    ]
    assert [given for given in forged if cost.is_costs(given)] == []


def test_the_prediction_is_the_busy_time_and_the_price_of_nodes() -> None:
    found = cost.of_result({**GIVEN, "graph": None})
    assert found.predicted == pytest.approx(1.5e-4 + 100 * 2e-7 + 3e-6)
    assert found.within is not None
    assert list(found.within) == pytest.approx([0.96 * 1.5e-4, 1.02 * 1.5e-4 + 100 * 0.35e-6 + 10e-6])
    assert found.as_graph == found.predicted
    assert cost.of_result(GIVEN).as_graph == GRAPH["median"]


def test_the_prediction_is_that_of_the_path_that_the_call_takes_under_capture() -> None:
    found = cost.of_result({**GIVEN, "captured_busy": 2e-4, "captured_nodes": 150.0})
    assert found.predicted == pytest.approx(2e-4 + 150 * 2e-7 + 3e-6)


def test_a_graph_is_never_predicted_to_be_slower_than_eager() -> None:
    found = cost.of_result({**GIVEN, "captured_busy": 2e-3})
    assert (found.predicted, found.within) == (1e-3, (1e-3, 1e-3))


def test_a_capture_pays_after_so_many_calls() -> None:
    assert cost.of_result(GIVEN).break_even == 7  # 5 ms at 0.8 ms a call
    assert cost.of_result({**GIVEN, "graph": TIMES}).break_even is None


# The decision


def result(verdict: str = "safe", **more: Any) -> CaptureResult:
    answer: dict[str, Any] = {"verdict": verdict, "said": "seen", "causes": [], "costs": {**GIVEN, **more}}
    request = Request("train.py:step", sys.executable, ".")
    return session.joined_result(request, answer, [], {})


DECISIONS = {
    "graph": (
        result(),
        "graph it as a whole: 5.0 times as fast (measured); 1 ms now, 200 us as a graph, 20 us at the limit of this GPU",
        0,
    ),
    "fix": (
        result("capture_error", graph=None),
        "graph it as a whole once it captures right: 5.8 times as fast (predicted); 1 ms now, 173 us as a graph, 20 us at",
        1,
    ),
    "little": (result(graph=TIMES, busy=7e-4), "little to gain: 1.0 times as fast (measured); 1 ms now, 1 ms as a graph", 1),
    "busy": (result("capture_error", graph=None, busy=9.9e-4), "do not: the GPU is busy for 99 % of the call", 1),
    "": (result(busy=None), "not known: 1 ms a call now, and its kernels could not be profiled", 1),
}


@pytest.mark.parametrize("verdict", DECISIONS)
def test_a_decision_is_one_sentence(verdict: str) -> None:
    given, sentence, code = DECISIONS[verdict]
    assert given.cost is not None
    assert call.verdict(given, given.cost) == verdict
    assert call.said(given, given.cost).startswith(sentence)
    assert call_output.exit_code([given]) == code


def test_the_text_has_the_three_numbers_and_what_lies_between_them() -> None:
    text = call_output.text(result(nodes_least=99, nodes=150.0, captured_nodes=160.0), READER)
    for line in (
        "  now         1 ms (900 us to 1.2 ms) a call; it returns after 900 us; the GPU works for 150 us (15 %) on 150 kernels",
        "  as a graph  200 us (190 us to 210 us) measured; 185 us (144 us to 219 us) predicted",
        "  limit       20 us: 3 products of 1 GFLOP, none under 1.0 us, and 0.001 MB moved once; all else fused",
        "  time now    850 us waiting for launches; 150 us 150 nodes at the shortest that one takes",
        "  how         as one graph of the whole call",
        "  capture     5 ms, pays off after 7 calls; 1 MiB of GPU memory",
        "  kernels     gemm 67 %; add 33 %",
        "note: calls differ: 99 to 100 kernels",
        "note: while a stream captures, the call takes another path, of 160 nodes: it is the one predicted",
        "note: most of a replay is the price of 160 nodes",
    ):
        assert line in text


def _part(number: int, inside: int, name: str, verdict: str) -> dict[str, Any]:
    names = {"number": number, "inside": inside, "kind": "module", "name": name, "class": "", "verdict": verdict, "said": ""}
    return {**names, "calls": 1.0, "launches": 50.0, "gpu": 1e-4, "cpu": 4e-4, "like": -1, "causes": []}


MAP: dict[str, Any] = {
    "wall": 2e-3, "cpu": 2e-3, "busy": 1e-4, "launches": 100, "node": 0.35e-6, "replay": 10e-6,
    "regions": [_part(0, -1, "step", "capture_error"), _part(1, 0, "encoder", "safe"), _part(2, 0, "head", "capture_error")],
}  # fmt: skip


def test_a_call_that_does_not_capture_is_mapped_and_graphs_of_its_parts_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    measures = []

    def examine(given: list[Request], *_: object) -> Iterator[CaptureResult]:
        for request in given:
            measures.append(request.measure)
            costs = {**GIVEN, "graph": None} if request.measure == "costs" else None
            answer: dict[str, Any] = {"verdict": verdict, "said": "seen", "causes": [], "costs": costs}
            answer |= {"map": MAP} if costs is None else {}
            yield session.joined_result(request, answer, [], {})

    monkeypatch.setattr(session, "examine", examine)
    listener, guests = session.Listener(lambda _: None), session.Guests()
    verdict = "safe"
    [right] = call.measured([Request("train.py:step", sys.executable, ".")], guests, listener)
    assert (measures, call.as_parts(right)) == (["costs"], None)
    verdict = "capture_error"
    [found] = call.measured([Request("train.py:step", sys.executable, ".")], guests, listener)
    assert measures[1:] == ["costs", "mapping"]
    parts = call.as_parts(found)
    assert parts is not None
    assert [region.name for region in parts.graphs] == ["encoder"]
    assert (parts.least, parts.most) == pytest.approx((0.81325e-3, 0.86325e-3))  # 2 ms but 0.4, and launches; 0.1 ms of the GPU
    assert "predicted, with graphs of encoder, which capture now" in call_output.text(found, READER)
    assert "(predicted); parts of it now, 1.2 times as fast (predicted); 1 ms now" in call_output.text(found, READER)
    assert call_output.data(found, READER)["decision"]["as_parts"] == {
        "graphs": ["encoder"],
        "predicted": [parts.least, parts.most],
    }
    assert "as parts, predicted" in [bar.name for bar in of_call.page(found, READER.steps).bars]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (None, "note: its parts were not measured: seen"),
        ({**MAP, "regions": MAP["regions"][::2]}, "  as parts    no part that was tried captures"),
    ],
)
def test_parts_that_were_not_measured_or_do_not_capture_are_said(
    given: dict[str, Any] | None, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(requests: list[Request], *_: object) -> Iterator[CaptureResult]:
        own = {"costs": {**GIVEN, "graph": None}} if requests[0].measure == "costs" else {"map": given}
        yield session.joined_result(requests[0], {"verdict": "capture_error", "said": "seen", "causes": [], **own}, [], {})

    monkeypatch.setattr(session, "examine", examine)
    request = Request("train.py:step", sys.executable, ".")
    [found] = call.measured([request], session.Guests(), session.Listener(lambda _: None))
    assert line in call_output.text(found, READER)


def test_without_a_count_of_the_work_the_other_numbers_stand() -> None:
    given = result(floor=None)
    assert given.cost is not None
    assert given.cost.limit is None
    assert call.said(given, given.cost) == "graph it as a whole: 5.0 times as fast (measured); 1 ms now, 200 us as a graph"
    assert "  limit  " not in call_output.text(given, READER)
    assert "limit of this GPU" not in html.rendered(of_call.page(given, READER.steps))


def test_json_has_the_same_numbers() -> None:
    data = call_output.data(result(), READER)
    decision = data["decision"]
    assert (data["verdict"], decision["verdict"]) == ("safe", "graph")
    assert decision["as_graph"]["measured"] == GRAPH
    assert decision["limit"] == {"seconds": 2e-5, "bytes": 1000, "products": 3, "flops": 10**9}
    assert json.loads(json.dumps(decision))["now"] == {**TIMES, "submit": 9e-4}


def test_without_costs_the_check_speaks() -> None:
    given = session.joined_result(
        Request("train.py:step", sys.executable, "."), {"verdict": "lacking", "said": "no GPU", "causes": []}, [], {}
    )
    assert "no GPU" in call_output.text(given, READER)
    assert call_output.data(given, READER)["decision"] is None
    assert call_output.exit_code([given]) == 3


# The command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "skill decide captures a callable: name it as FILE:FUNCTION"),
        (["{file}", "--step", "x"], "--step names ranges of a trace"),
        (["{file}", "--trace", "x.json"], "--trace reads a trace, and nothing is measured: leave out a callable"),
        (["--trace", "x.json", "--shape", "8"], "--trace reads a trace, and nothing is measured: leave out --shape"),
        (["trace.json.gz"], "trace.json.gz is no Python file; if it is a trace: --trace trace.json.gz"),
        (["--target", "step", "--", "torchrun", "train.py"], "it measures one process"),
    ],
)
def test_what_does_not_go_together_is_said(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.py"
    file.write_text("def step(x):\n    return x\n", encoding="utf-8")
    assert cli.main(["decide", *(word.format(file=file) for word in arguments)]) == 2
    assert said in capsys.readouterr().err


TIMELINES = {
    "eager": {"names": ["gemm", "cudaLaunchKernel"], "gpu": [[5000, 2000, 0], [9000, 1000, 0]], "host": [[1000, 3000, 1]]},
    "graph": {"names": ["gemm"], "gpu": [[2000, 2000, 0]], "host": []},
}


def test_timelines_of_an_eager_call_and_a_replay_stand_on_one_scale() -> None:
    page = of_call.page(result(timelines=TIMELINES), READER.steps)
    assert [(lane.name, len(lane.spans)) for lane in page.lanes] == [
        ("eager: host submits", 1),
        ("eager: GPU works", 2),
        ("replay: GPU works", 1),
    ]
    assert page.length == pytest.approx(10e-6)
    assert page.lanes[1].spans[0].name == "2 us gemm"
    assert any("of calls under a profiler" in note for note in page.notes)
    assert "timelines" not in json.dumps(call_output.data(result(timelines=TIMELINES), READER))
    events = json.loads(perfetto.trace(page))["traceEvents"]
    assert [event["ts"] for event in events if event["ph"] == "X"] == pytest.approx([1.0, 5.0, 9.0, 2.0])


def test_copies_and_a_chain_are_told_from_the_timelines() -> None:
    copy = {"names": ["Memcpy DtoD (Device -> Device)", "gemm"], "host": []}
    eager = {**copy, "gpu": [[0, 31_000, 0], [40_000, 20_000, 1]]}
    graph = {**copy, "gpu": [[0, 21_000, 0], [21_000, 20_000, 1]]}
    given = result(timelines={"eager": eager, "graph": graph})
    text = call_output.text(given, READER)
    assert "  time now    850 us waiting for launches; 100 us 100 nodes at the shortest that one takes; 30 us copies" in text
    assert "; 20 us copies and fills beyond that; 30 us what they work beyond that" in text
    assert "note: the nodes of a replay are a chain, none overlaps another" in text
    forked = {**graph, "gpu": [[0, 21_000, 0], [20_000, 20_000, 1]]}
    assert "a chain" not in call_output.text(result(timelines={"eager": eager, "graph": forked}), READER)


@pytest.mark.parametrize(
    "forged",
    [[], {"eager": []}, {"eager": {}}]
    + [
        {"eager": {**TIMELINES["eager"], "gpu": [span]}}
        for span in ([1, 2], [0, -1, 0], [0, 1, 2], [0, 1, "0"], [0.5, 1, 0], 7)
    ],
)
def test_a_forged_timeline_is_not_read(forged: Any) -> None:
    assert cost.is_costs({**GIVEN, "timelines": TIMELINES})
    assert not cost.is_costs({**GIVEN, "timelines": forged})


def test_a_report_of_a_call_shows_its_times_parts_and_lines() -> None:
    page = of_call.page(result(), READER.steps)
    assert [bar.name for bar in page.bars] == ["now", "as a graph, measured", "as a graph, predicted", "limit of this GPU"]
    assert [split.name for split in page.splits] == ["now", "as a graph"]
    assert [part.kind for part in page.splits[0].parts] == ["idle", "node", "work"]
    assert page.limit == 2e-5
    assert ("capture", "5 ms, pays off after 7 calls; 1 MiB of GPU memory") in page.facts
    assert page.said in html.rendered(page)


class Event:
    """An event of a profile as torch 2.4 has it, which does not say whether it is a marked range."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        """Return the name."""
        return self._name


@pytest.mark.parametrize(
    ("name", "marked"),
    [("Optimizer.step#SGD.step", True), ("cudagraph_skill region 3", True), ("copy", True), ("vectorized_add", False)],
)
def test_a_marked_range_is_known_by_its_name_where_torch_does_not_say(name: str, marked: bool) -> None:
    assert calibration.annotates(Event(name), ("copy",)) is marked
