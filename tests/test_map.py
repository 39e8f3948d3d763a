"""The regions of a call and what a map says of them; captures of parts need a GPU: benchmarks/maps.py."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture import map_output, region_map, session
from cudagraph_skill.capture.guest import load, mapping, modes, regions
from cudagraph_skill.check.output import Reader
from cudagraph_skill.text import Steps

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    subject, given = _step(), list[regions.Arguments]()

    def took(_: regions.Region, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given.append(mapping._arguments(args, kwargs))

    with regions.followed(regions.watch(subject), lambda _: contextlib.nullcontext(), took):
        subject.call(*subject.inputs()[0])
    assert [tuple(each.args[0].shape) for each in given] == [(2, 4)] * 5
    assert {(each.modes.grad, each.modes.autocast) for each in given} == {(True, None)}


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
GIVEN = {"wall": 10e-3, "cpu": 10e-3, "busy": 1e-3, "launches": 1000.0, "regions": ROWS}


def test_the_outermost_parts_that_capture_become_graphs_and_the_innermost_that_fail_are_to_be_mended() -> None:
    given = region_map.of_result(GIVEN, {})
    assert [region.name for region in given.graphs()] == ["model.a", "optimizer.step"]
    assert [region.name for region in given.to_fix()] == ["model.b"]
    assert given.inside_graph(given.regions[3])
    assert given.not_tried() == []
    assert [depth for depth, _ in region_map.rows(given)] == [0, 1, 2, 3, 2, 2, 1, 1]


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
    return session.joined_result(session.Request("train.py:step", "python", "."), answer, [], {"how": "done"})


def test_the_text_has_a_line_for_each_region_the_plans_and_what_to_mend() -> None:
    text = map_output.written([_result()], "full", READER)
    assert "1000 launches" in text
    assert "in the graph around it" in text
    assert "fails, as an equal part does" in text
    assert "one graph for the whole: 1.36 ms a call, 7.4x (predicted)" in text
    assert "graphs for what captures now (model.a, optimizer.step)" in text
    assert "fix 1: model.b, 10 % of the CPU's time" in text


def test_json_has_the_regions_and_the_plans() -> None:
    data = json.loads(map_output.written([_result()], "json", READER))
    assert data["verdict"] == "capture_error"
    assert data["map"]["graphs"] == [2, 7]
    assert data["map"]["fix first"] == [4]
    assert [region["name"] for region in data["map"]["regions"]][:3] == ["step", "model", "model.a"]


@pytest.mark.parametrize("broken", [None, {}, {"regions": []}, {**GIVEN, "wall": "1"}, {**GIVEN, "regions": [{"number": 0}]}])
def test_a_map_that_cannot_be_read_is_left_out(broken: Any) -> None:
    assert _result(map=broken).map is None
    assert "fails at capture" in map_output.written([_result(map=broken)], "full", READER)
