"""The regions of a call and what a map says of them; captures of parts need a GPU: benchmarks/maps.py."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill import cli
from cudagraph_skill.capture import map_output, region_map, session
from cudagraph_skill.capture.guest import load, mapping, modes, regions
from cudagraph_skill.capture.request import Request
from cudagraph_skill.check.output import Reader
from cudagraph_skill.report import html, of_map
from cudagraph_skill.text import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READER = Reader(Steps(*[str] * len(Steps._fields)), lambda _: ([], []), False)


def _step() -> load.Subject:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return load.Subject(step, lambda: ((torch.ones(2, 4),), {}), None, [("", step)], None, "step")


def _followed(subject: load.Subject) -> tuple[regions.Watch, list[str]]:
    watched, order = regions.watch(subject), list[str]()

    @contextlib.contextmanager
    def around(region: regions.Region) -> Iterator[None]:
        order.append(region.name)
        yield

    with regions.followed(watched, around):
        subject.call(*subject.inputs()[0])
    return watched, order


def test_modules_backward_and_steps_are_regions_by_nesting() -> None:
    watched, order = _followed(_step())
    assert order == ["net", "net.0", "net.1", "net.1.0", "net.1.1", "backward", "optimizer.step"]
    inside = {region.name: region.parent.name for region in watched.regions() if region.parent is not None}
    inner = {"net.0": "net", "net.1": "net", "net.1.0": "net.1", "net.1.1": "net.1"}
    assert inside == {"net": "step", **inner, "backward": "step", "optimizer.step": "step"}


def test_torch_is_as_before_afterwards_also_where_the_call_raises() -> None:
    before = (torch.nn.Module.__call__, torch.autograd.backward, torch.autograd.grad)
    subject = _step()
    subject.call = lambda _: torch.nn.Linear(1, 1)(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        _followed(subject)
    assert (torch.nn.Module.__call__, torch.autograd.backward, torch.autograd.grad) == before


def test_a_module_is_told_with_its_arguments_and_modes() -> None:
    subject, given, steps = _step(), list[regions.Arguments](), list[list[bool]]()

    def took(region: regions.Region, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if region.kind == regions.OPTIMIZER:
            steps.append([parameter.grad is not None for parameter in mapping._parameters(region.owner)])
        else:
            given.append(mapping._arguments(args, kwargs))

    with regions.followed(regions.watch(subject), lambda _: contextlib.nullcontext(), took):
        subject.call(*subject.inputs()[0])
    assert [tuple(each.args[0].shape) for each in given] == [(2, 4)] * 5
    assert {(each.modes.grad, each.modes.autocast) for each in given} == {(True, None)}
    assert steps == [[True] * 4]


def test_a_module_is_called_with_its_backward_pass_where_gradients_flow() -> None:
    module = torch.nn.Linear(2, 1)
    given = regions.Arguments((torch.ones(3, 2),), {}, modes.now())
    mapping._forward(module, given, *given.args)
    assert module.weight.grad is not None
    module.weight.grad = None
    mapping._forward(module, given._replace(modes=given.modes._replace(grad=False)), *given.args)
    assert module.weight.grad is None


def test_equal_layers_are_of_one_kind_and_others_are_not() -> None:
    given = regions.Arguments((torch.ones(2, 4),), {}, modes.now())
    layers = [torch.nn.Linear(4, wide) for wide in (4, 4, 5)]
    parts = [regions.Region(number, "module", "", layer, None) for number, layer in enumerate(layers)]
    first, second, third = (mapping._kind(part, given) for part in parts)
    assert first == second != third
    parts[1].owner.eval()
    assert mapping._kind(parts[1], given) != first


def test_work_belongs_to_the_innermost_region_that_launched_it() -> None:
    spans = [(0, 100, 0), (10, 40, 1), (20, 30, 2), (50, 60, 3), (200, 300, 0)]
    assert regions.innermost(spans, [5, 15, 25, 35, 45, 55, 150, 250]) == [0, 1, 2, 1, 0, 3, None, 0]
    assert regions.union([(0, 20), (10, 30), (50, 60), (55, 58)]) == 40


# What is made of it ---------------------------------------------------------------------------------------------------


def _row(number: int, inside: int, name: str, **known: Any) -> dict[str, Any]:
    plain = {
        "kind": "module",
        "class": "",
        "calls": 1.0,
        "launches": 0.0,
        "gpu": 0.0,
        "cpu": 0.0,
        "verdict": "",
        "said": "",
        "like": -1,
    }
    return {"number": number, "inside": inside, "name": name, "causes": [], **plain, **known}


ROWS = [
    _row(0, -1, "step", kind="call", launches=1000.0, gpu=1e-3, cpu=10e-3, verdict="capture_error"),
    _row(1, 0, "model", launches=400.0, gpu=0.6e-3, cpu=4e-3, verdict="capture_error"),
    _row(2, 1, "model.a", launches=200.0, gpu=0.3e-3, cpu=2e-3, verdict="safe"),
    _row(3, 2, "model.a.inner", launches=100.0, gpu=0.1e-3, cpu=1e-3),
    _row(4, 1, "model.b", launches=100.0, gpu=0.2e-3, cpu=1e-3, verdict="capture_error"),
    _row(5, 1, "model.c", launches=100.0, gpu=0.1e-3, cpu=1e-3, verdict="capture_error", like=4),
    _row(6, 0, "backward", kind="backward", launches=400.0, gpu=0.3e-3, cpu=4e-3),
    _row(7, 0, "optimizer.step", kind="optimizer", launches=200.0, gpu=0.1e-3, cpu=2e-3, verdict="safe"),
]
GIVEN = {"wall": 10e-3, "cpu": 10e-3, "busy": 1e-3, "launches": 1000.0, "node": 0.35e-6, "replay": 10e-6, "regions": ROWS}


def test_the_outermost_parts_that_capture_become_graphs_and_the_innermost_that_fail_are_to_be_mended() -> None:
    given = region_map.of_result(GIVEN, {})
    assert [region.name for region in given.graphs()] == ["model.a", "optimizer.step"]
    assert [region.name for region in given.to_fix()] == ["model.b"]
    assert given.inside_graph(given.regions[3])
    assert given.not_tried() == []
    assert [depth for depth, _ in region_map.rows(given)] == [0, 1, 2, 3, 2, 2, 1, 1]


def test_a_fix_counts_by_what_it_alone_holds_up() -> None:
    given = region_map.of_result(GIVEN, {})
    assert given.held_up(given.regions[4]).name == "step"
    more = [*ROWS, _row(8, 0, "other", cpu=3e-3, verdict="capture_error")]
    given = region_map.of_result({**GIVEN, "regions": more}, {})
    assert [region.name for region in given.to_fix()] == ["model.b", "other"]
    assert [given.held_up(region).name for region in given.to_fix()] == ["model", "other"]


def test_parts_of_an_equal_region_have_the_verdicts_of_its_parts() -> None:
    layers = [
        _row(0, -1, "step", kind="call", verdict="capture_error"),
        _row(1, 0, "layers.0", verdict="capture_error"),
        _row(2, 1, "layers.0.attention", verdict="safe", cpu=1.0),
        _row(3, 1, "layers.0.router", verdict="capture_error"),
        _row(4, 0, "layers.1", verdict="capture_error", like=1),
        _row(5, 4, "layers.1.attention", cpu=1.0),
        _row(6, 4, "layers.1.router"),
        _row(7, 4, "layers.1.other"),
    ]
    given = region_map.of_result({**GIVEN, "regions": layers}, {})
    assert [region.name for region in given.graphs()] == ["layers.0.attention", "layers.1.attention"]
    assert [region.name for region in given.to_fix()] == ["layers.0.router"]
    assert [region.like for region in given.regions[5:]] == [2, 3, -1]
    text = map_output.written([_result(map={**GIVEN, "regions": layers})], "full", READER)
    assert "with graphs for what captures now: layers.0.attention, and 1 like these" in text
    assert given.held_up(given.regions[3]) == given.whole
    assert [region.name for region in given.not_tried()] == ["layers.1.other"]


def test_neighbours_that_are_like_the_same_part_share_a_line() -> None:
    layers = [_row(8 + number, 1, f"model.c.{number}", cpu=1e-3, verdict="capture_error", like=4) for number in range(3)]
    text = map_output.written([_result(map={**GIVEN, "regions": [*ROWS, *layers]})], "full", READER)
    (line,) = [line for line in text.splitlines() if "fails, like model.b" in line]
    assert line.split()[:3] == ["c", "to", "c.2"]
    assert "40 %" in line, "the CPU's time of all four"


def test_what_could_not_be_checked_is_not_tried_with_its_reason() -> None:
    rows = [*ROWS, _row(8, 0, "other", verdict="lacking", said="this check itself failed"), _row(9, 8, "other.inner")]
    text = map_output.written([_result(map={**GIVEN, "regions": rows})], "full", READER)
    assert "not tried: other (this check itself failed)" in text


def test_predictions_keep_what_stays_on_the_cpu() -> None:
    given = region_map.of_result(GIVEN, {})
    assert given.as_graph() == pytest.approx(1e-3 + 0.35e-3 + 10e-6)
    optimizer = [given.regions[7]]
    assert given.with_graphs(optimizer) == pytest.approx(10e-3 - (2e-3 - 10e-6 - 0.33e-6 * 200))
    assert given.with_graphs([]) == 10e-3
    assert given.with_graphs([given.whole]) == given.as_graph()
    bound = region_map.of_result({**GIVEN, "busy": 11e-3}, {})
    assert bound.as_graph() == bound.with_graphs(optimizer) == 10e-3, "a call that the GPU bounds gains nothing"


def test_a_graph_of_a_module_takes_its_part_of_the_backward_pass() -> None:
    given = region_map.of_result(GIVEN, {})
    alone = 2e-3 - 10e-6 - 0.33e-6 * 200
    assert given.with_graphs([given.regions[2]]) == pytest.approx(10e-3 - alone - 0.5 * 4e-3)


def _result(**more: Any) -> Any:
    answer = {"verdict": "capture_error", "said": "fails at capture", "causes": [], "map": GIVEN, **more}
    return session.joined_result(Request("train.py:step", "python", "."), answer, [], {"how": "done"})


def test_the_text_has_a_line_for_each_region_the_plans_and_what_to_mend() -> None:
    text = map_output.written([_result()], "full", READER)
    assert "the GPU is busy for 1 ms (10 %) with 1000 launches" in text
    assert "    a  " in text, "a part is named within the one around it"
    assert "in the graph around it" in text
    assert "fails, like model.b" in text
    assert "predicted: 1.36 ms a call (7.4x) as one graph around step, after all fixes" in text
    assert "with graphs for what captures now: model.a, optimizer.step" in text
    assert "fix 1: model.b and 1 like it: nothing else was seen to fail in step (100 % of the CPU's time)" in text
    assert text.splitlines()[-1].startswith("next: ")


def test_the_line_that_fails_comes_with_its_fix_and_leads_to_its_explanation(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def step(x):\n    return x.item()\n")
    cause = {"kind": "fails", "op": "aten::_local_scalar_dense", "path": str(tmp_path / "net.py"), "line": 2, "first": True}
    rows = [{**row, "causes": [cause]} if row["number"] == 4 else row for row in ROWS]
    result = _result(map={**GIVEN, "regions": rows}, causes=[cause])
    text = map_output.written([result], "full", READER._replace(steps=Steps(read=str, turn=str, ask=str, explain=str)))
    assert "net.py:2:5: CG201 error" in text
    assert "\n  fix: " in text
    assert text.endswith("next: CG201")
    assert "fails: " in next(line for line in text.splitlines() if line.startswith("  step")), "the whole has its line, too"


def test_of_many_fixes_the_first_are_listed() -> None:
    failing = [_row(number, 0, f"part.{number}", cpu=1e-3, verdict="capture_error") for number in range(8, 16)]
    text = map_output.written([_result(map={**GIVEN, "regions": [*ROWS, *failing]})], "full", READER)
    assert "fix 6: " in text
    assert "fix 7: " not in text
    assert "and 3 more to fix: map again after these" in text


def test_a_call_that_keeps_the_gpu_busy_gains_nothing() -> None:
    text = map_output.written([_result(map={**GIVEN, "busy": 9.9e-3})], "full", READER)
    assert "predicted: no gain: the GPU is busy for 99 % of the call" in text
    assert text.endswith(f"next: {map_output.BUSY}")


def test_the_text_leaves_out_what_is_inside_equal_parts_and_of_many_the_small_ones() -> None:
    inner = [_row(number, 5, f"model.c.{number}", verdict="safe") for number in range(8, 11)]
    text = map_output.written([_result(map={**GIVEN, "regions": [*ROWS, *inner]})], "full", READER)
    assert "left out: 3 parts that are small, or inside one that is like another" in text
    small = [_row(number, 0, f"small.{number}", gpu=1e-7, launches=1.0, verdict="safe") for number in range(8, 108)]
    failing = _row(108, 0, "bad", gpu=1e-7, launches=1.0, verdict="capture_error")
    given = region_map.of_result({**GIVEN, "regions": [*ROWS, *small, failing]}, {})
    assert [region.name for _, region in region_map.shown(given)] == [*(row["name"] for row in ROWS), "bad"]
    data = map_output.data(_result(map={**GIVEN, "regions": [*ROWS, *small, failing]}), READER, short=True)["map"]
    assert (len(data["regions"]), data["left_out"], data["graphs"]) == (9, 100, [2, 7])


def test_json_has_the_regions_and_the_plans() -> None:
    data = json.loads(map_output.written([_result()], "json", READER))
    assert data["verdict"] == "capture_error"
    assert data["map"]["graphs"] == [2, 7]
    assert (data["map"]["fix_first"], data["map"]["not_tried"]) == ([4], [])
    assert data["next"]
    assert [region["name"] for region in data["map"]["regions"]][:3] == ["step", "model", "model.a"]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        {},
        {"regions": []},
        {**GIVEN, "wall": "1"},
        {**GIVEN, "regions": [{"number": 0}]},
        {**GIVEN, "regions": [*ROWS, _row(9, 10, "a"), _row(10, 9, "b")]},
    ],
)
def test_a_map_that_cannot_be_read_is_left_out(broken: Any) -> None:
    assert _result(map=broken).map is None
    assert "fails at capture" in map_output.written([_result(map=broken)], "full", READER)


# The command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a program, and work in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("def step(x):\n    return x\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        ([], "skill map captures a callable: name it as FILE:FUNCTION", 2),
        (["gone.py:step"], "gone.py:step: there is no such file; name one that is there, as FILE or FILE:FUNCTION", 2),
        (["."], ". is a folder, and a run captures one callable: name it as FILE:FUNCTION", 2),
        (["train.py", "--nproc", "0"], "argument --nproc: is 0, it must be 1 or more", 2),
        (["train.py:step", "--nproc", "2"], "skill map: it measures one process", 2),
        (["--nproc", "2", "--target", "step", "--", "python", "train.py"], "without --nproc; `", 2),
        (["--target", "step", "--", "torchrun", "train.py"], "without a launcher such as torchrun", 2),
        (["--target", "step", "--", "python", "-m", "torch.distributed.run", "train.py"], "without a launcher", 2),
        (["--target", "step", "--", "accelerate", "launch", "train.py"], "without a launcher", 2),
        (["--", "python", "train.py"], "skill map: which call of the program", 2),
        (["train.py:step", "--fix"], "skill map: there is no option --fix", 2),
        (["train.py:step", "--skip", "1"], "skill map: --skip is for a program that runs", 2),
        (["train.py:step", "--python", "/nowhere/python"], "/nowhere/python: No such file", 3),
    ],
)
def test_misuse_is_one_sentence_and_a_verdict(
    arguments: list[str], says: str, code: int, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["map", "--json", *arguments]) == code, project
    out, err = capsys.readouterr()
    assert says in err
    assert err.count("\n") == 1
    assert json.loads(out)["verdict"] == {2: "misuse", 3: "lacking"}[code]
    assert says in json.loads(out)["error"]


def test_a_target_that_is_not_in_the_file_is_misuse(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "train.py has no function `stop`"
    monkeypatch.setattr(session, "examine", lambda *_: iter([_result(verdict="misuse", said=said, map=None)]))
    assert cli.main(["map", "--json", f"{project}/train.py:stop", "--python", sys.executable]) == 2
    out, err = capsys.readouterr()
    assert err == f"{said}\n"
    assert json.loads(out) == {"verdict": "misuse", "error": said}


def test_without_a_map_the_text_is_that_of_the_check() -> None:
    text = map_output.written([_result(verdict="error_in_eager", said="ValueError: no", map=None)], "full", READER)
    assert text.startswith("error without a graph: ")
    assert "\nnext: " in text


def test_a_report_of_a_map_shows_parts_and_what_to_fix() -> None:
    page = of_map.page(_result(map=GIVEN), READER.steps)
    assert page.bars[0].name == "now"
    assert [table.name for table in page.tables] == ["Parts", "To fix, the most first"]
    assert len(page.tables[0].rows) == len(region_map.shown(_result(map=GIVEN).map))
    assert page.said in html.rendered(page)
