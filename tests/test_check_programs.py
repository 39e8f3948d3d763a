"""The check on whole programs: gradients between replays, graphs that are alive together, and programs that are long."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_text, reading

if TYPE_CHECKING:
    from cudagraph_skill.check.findings import Report

STEP = """
import torch
from torch import nn

class Step:
    def __init__(self):
        self.model = nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True, capturable=True)
        self.x = torch.zeros(4, 4, device="cuda")

    def backward(self):
        loss = self.model(self.x).sum()
        loss.backward()
        return loss

    def whole(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.backward()
        self.optimizer.step()
        return loss

step = Step()
for _ in range(3):
    step.whole()
graph = torch.cuda.CUDAGraph()
"""
CAPTURE = """
import torch

def step(x):
    return x * 2

def capture(rows):
    x = torch.zeros(rows, 8, device="cuda")
    step(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(x)
    return graph, x, out

def run(captured):
    captured[0].replay()
    return captured[2].sum().item()
"""


def _report(*parts: str) -> Report:
    return check_text("\n".join(dedent(part) for part in parts), "program.py", None, Options())


def _ids(*parts: str) -> list[str]:
    report = _report(*parts)
    assert report.regions
    assert report.notes == []
    return [finding.id for finding in report.findings if finding.id in {"CG307", "CG308", "CG409", "CG505", "CG705"}]


@pytest.mark.parametrize(
    ("before", "captured", "between"),
    [
        ("", "loss = step.whole()", "step.whole()"),
        ("", "loss = step.whole()", "step.optimizer.zero_grad()"),
        ("", "loss = step.whole()", "step.model.zero_grad()"),
        ("", "loss = step.whole()", "for each in step.model.parameters():\n    each.grad = None"),
        ("step.optimizer.zero_grad()", "step.backward()\nstep.optimizer.step()", "step.whole()"),
        (
            "",
            "for each in step.model.parameters():\n    each.grad = None\nstep.backward()\nstep.optimizer.step()",
            "step.whole()",
        ),
        (
            "",
            "step.optimizer.zero_grad()\nstep.backward()",
            "step.optimizer.zero_grad(set_to_none=False)\nstep.optimizer.step()",
        ),
    ],
)
def test_gradients_that_a_graph_makes_and_uses_itself_may_be_dropped(before: str, captured: str, between: str) -> None:
    region = f"{before}\nwith torch.cuda.graph(graph):\n{indent(captured, '    ')}\n"
    assert _ids(STEP, region, f"for _ in range(4):\n    graph.replay()\n{indent(between, '    ')}") == []


@pytest.mark.parametrize(
    ("before", "captured", "between"),
    [
        ("", "step.optimizer.zero_grad()\nstep.backward()", "step.optimizer.step()\nstep.optimizer.zero_grad()"),
        ("step.optimizer.zero_grad()", "step.backward()", "step.optimizer.step()\nstep.model.zero_grad(set_to_none=True)"),
        (
            "",
            "step.optimizer.zero_grad(set_to_none=False)\nstep.backward()\nstep.optimizer.step()",
            "step.optimizer.zero_grad()",
        ),
        ("", "step.backward()\nstep.optimizer.step()\nstep.optimizer.zero_grad()", "step.optimizer.zero_grad()"),
    ],
)
def test_gradients_that_others_use_or_that_are_older_than_the_graph_may_not(before: str, captured: str, between: str) -> None:
    region = f"{before}\nwith torch.cuda.graph(graph):\n{indent(captured, '    ')}\n"
    assert _ids(STEP, region, f"for _ in range(4):\n    graph.replay()\n{indent(between, '    ')}") == ["CG307"]


def test_a_second_graph_may_be_the_one_that_uses_the_gradients() -> None:
    graphs = """
    update = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.optimizer.zero_grad()
        step.backward()
    with torch.cuda.graph(update, pool=graph.pool()):
        step.optimizer.step()
    for _ in range(4):
        graph.replay()
        update.replay()
        step.whole()
    """
    assert _ids(STEP, graphs) == []


FOLLOWING = [
    "run(capture(8))\nrun(capture(16))",
    "results = {rows: run(capture(rows)) for rows in (8, 16)}",
    "one = capture(8)\nrun(one)\none = capture(16)\nrun(one)",
    "one = capture(8)\nrun(one)\ndel one\nother = capture(16)\nrun(other)",
    """
    def measured(rows):
        one = capture(rows)
        return run(one)

    print(measured(8), measured(16), [measured(rows) for rows in (8, 16)])
    """,
    """
    import sys

    def one_of_two(flag):
        if flag:
            one = capture(8)
        else:
            one = capture(16)
        run(one)

    one_of_two(len(sys.argv))
    """,
]
BESIDE = [
    "one, other = capture(8), capture(16)\nrun(one)\nrun(other)",
    "all = [capture(rows) for rows in (8, 16)]",
    "all = {rows: capture(rows) for rows in (8, 16)}",
    "import sys\nall = {}\nfor rows in map(int, sys.argv):\n    all[rows] = capture(rows)",
    "def both():\n    one = capture(8)\n    other = capture(16)\n    print(one, other)\nboth()",
    "def both():\n    one = capture(8)\n    return one, capture(16)\nbuilt = both()",
    """
    def server(rows):
        graph, x, out = capture(rows)

        def serve(y):
            x.copy_(y)
            graph.replay()
            return out.clone()

        return serve

    small, large = server(8), server(16)
    """,
    """
    class Both:
        def __init__(self):
            self.small = capture(8)
            self.large = capture(16)

    both = Both()
    """,
]


@pytest.mark.parametrize("program", FOLLOWING)
def test_graphs_that_follow_each_other_may_have_a_pool_each(program: str) -> None:
    assert _ids(CAPTURE, program) == []


@pytest.mark.parametrize("program", BESIDE)
def test_graphs_that_are_kept_side_by_side_share_a_pool(program: str) -> None:
    assert _ids(CAPTURE, program) == ["CG505"]


def test_a_graph_that_is_captured_again_is_one_graph() -> None:
    program = """
    import torch
    x = torch.zeros(8, device="cuda")
    y = x * 2
    graph = torch.cuda.CUDAGraph()
    for _ in range(2):
        with torch.cuda.graph(graph):
            y = x * 2
        graph.reset()
    """
    assert _ids(program) == []


def test_where_the_output_of_a_graph_is_is_no_result() -> None:
    assert _ids(CAPTURE, "outputs = []\none = capture(8)\noutputs.append(one[2])\nrun(one)\nrun(one)") == []
    kept = "outputs = []\none = capture(8)\nfor _ in range(3):\n    run(one)\n    outputs.append(one[2])"
    assert _ids(CAPTURE, kept) == ["CG308"]


LAZY = """
import torch

class Lazy:
    def __init__(self):
        self.calls, self.graph = 0, None
        self.x = torch.zeros(8, device="cuda")

    def __call__(self):
        self.calls += 1
        if self.calls <= 3:
            return self.x * 2
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = (self.x * 2).sum().item()
        self.graph.replay()

def steps(run):
    for _ in range(50):
        run()
        for a in range(8):
            for b in range(8):
                for c in range(8):
                    table = {a: b + c, b: c * a, c: a + b}

steps(lambda: None)
steps(Lazy())
"""


def test_a_loop_is_followed_until_it_repeats_itself() -> None:
    report = _report(LAZY)
    assert "CG201" in [finding.id for finding in report.findings]
    assert report.notes == []


@pytest.mark.parametrize(("steps", "ids"), [(11, []), (7, ["CG705"])])
def test_each_step_of_ddp_counts(steps: int, ids: list[str]) -> None:
    program = f"""
    import torch
    from torch import nn
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4).cuda())
    x = torch.zeros(4, 4, device="cuda")
    with torch.cuda.stream(side):
        for _ in range({steps}):
            model(x).sum().backward()
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x).sum().backward()
    """
    assert _ids(program) == ids


LONG = """
import torch

def prepare(table):
    for a in range(12):
        for b in range(12):
            for c in range(12):
                table[a] = {a: b, b: c, c: a}

class Step:
    def __init__(self):
        prepare({})
        self.x = torch.zeros(4, device="cuda")
        self.graph = None

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            return self.x.sum().item()

def capture(x: torch.Tensor):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return x.sum().item()

def main():
    prepare({})
    capture(torch.zeros(4, device="cuda"))
    Step().capture()

main()
"""


def test_a_program_of_usual_length_is_read_whole() -> None:
    report = _report(LONG)
    assert [finding.line for finding in report.findings] == [19, 24]
    assert report.notes == []


def test_of_a_long_program_what_captures_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PROGRAM", 3000)
    monkeypatch.setattr(reading, "_BUDGET", 3000)
    report = _report(LONG)
    # The object is read without its `__init__`, which is the long part.
    assert sorted((finding.line, finding.certain) for finding in report.findings) == [(19, False), (24, True)]
    assert report.notes == ["program.py: the program is larger than the budget of this check; it was read in part"]


def test_a_mode_of_torch_compile_may_be_a_variable() -> None:
    program = """
    import torch
    MODES = {"compiled": "default", "graph": "reduce-overhead"}
    def prepare(how):
        return torch.compile(torch.nn.Linear(4, 4).cuda(), mode=MODES[how])
    for how in MODES:
        prepare(how)
    """
    assert [(region.line, region.how) for region in _report(program).regions] == [(5, "reduce-overhead")]


def test_a_model_that_inherits_from_a_container_stays_one_when_it_is_moved() -> None:
    program = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def forward(self, x):
            return x / x.max().item()

    class Model(nn.Sequential):
        def forward(self, x):
            return super().forward(x)

    model = Model(Block()).cuda().eval()
    x = torch.zeros(4, device="cuda")
    model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    """
    assert [(finding.line, finding.id) for finding in _report(program).findings] == [(7, "CG201")]


def test_a_capture_may_stand_in_the_block_of_a_stream() -> None:
    program = """
    import torch
    x = torch.zeros(4, device="cuda")
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        y = x * 2
        with torch.cuda.graph(graph, stream=side):
            y = x * 2
        z = y.sum().item()
    """
    report = _report(program)
    assert len(report.regions) == 1
    assert report.findings == []
    assert report.notes == []


def test_a_function_that_calls_itself_in_many_places_costs_no_more_than_others() -> None:
    program = """
    import torch

    def copied(data):
        if isinstance(data, tuple):
            return tuple(copied(each) for each in data)
        if isinstance(data, list):
            return [copied(each) for each in data]
        if isinstance(data, dict):
            return {key: copied(each) for key, each in data.items()}
        if hasattr(data, "fields"):
            return [copied(each) for each in data.fields], copied(data.rest)
        return data

    def main(load):
        data = copied(load())
        x = torch.zeros(4, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            return x.sum().item(), data
    """
    report = _report(program)
    assert [finding.line for finding in report.findings] == [20]
    assert report.notes == []
