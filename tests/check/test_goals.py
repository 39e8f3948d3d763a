"""A capture is read whatever stands in the way of it: flags, counters, early returns, calls that nobody makes."""

from __future__ import annotations

import pytest
from cudagraph_skill.check import Options, check_text

CAPTURE = """
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.cuda.synchronize()  # found
        y = x * 2
"""
PROGRAMS = {
    "flag with a default": "def run(x, use_graph=False):\n    if not use_graph:\n        return x * 2\n" + CAPTURE,
    "flag of a caller": f"def run(x, cg):\n    if not cg:\n        return None\n{CAPTURE}\nrun(torch.ones(2).cuda(), False)\n",
    "environment": f"""
import os
ON = os.environ.get('GRAPHS', '0') == '1'
def run(x):
    if not ON:
        return None
{CAPTURE}
""",
    "counter": """
class Runner:
    def __init__(self):
        self.calls, self.graph = 0, None

    def step(self, x):
        self.calls += 1
        if self.calls < 4:
            return x * 2
        if self.calls == 4:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                torch.cuda.synchronize()  # found
                self.y = x * 2
        self.graph.replay()
        return self.y
""",
    "both flags": """
def run(x, steps, use_graph=False):
    for step in range(steps):
        if step > 2 and use_graph:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                torch.cuda.synchronize()  # found
                y = x * 2
run(torch.ones(2).cuda(), 1)
""",
    "switched off": """
class Runner:
    enabled = False

    def prepare(self, x):
        if not self.enabled:
            return
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            torch.cuda.synchronize()  # found
            self.y = x * 2
""",
    "a handler": """
def run(x):
    try:
        y = x * 2
    except RuntimeError:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.cuda.synchronize()  # found
            y = x * 2
""",
    "a function in a function": """
def graphed(function):
    def call(x):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.cuda.synchronize()  # found
            y = function(x)
        return y
    return call
""",
    "begin and end": """
def run(x):
    g = torch.cuda.CUDAGraph()
    g.capture_begin()
    torch.cuda.synchronize()  # found
    y = x * 2
    g.capture_end()
    return y.sum().item()
""",
    "begin with or without a pool": """
def run(x, pool=None):
    g = torch.cuda.CUDAGraph()
    if pool is None:
        g.capture_begin()
    else:
        g.capture_begin(pool=pool)
    try:
        torch.cuda.synchronize()  # found
        y = x * 2
    finally:
        g.capture_end()
    torch.cuda.synchronize()
""",
    "tensordict": """
from tensordict.nn import CudaGraphModule
def update(x):
    torch.cuda.synchronize()  # found
    return x * 2
update = CudaGraphModule(update)
""",
    "tensordict, called": """
from tensordict.nn import CudaGraphModule
def update(x):
    torch.cuda.synchronize()  # found
    return x * 2
fast = CudaGraphModule(update)
fast(torch.ones(2, device="cuda"))
""",
    "behind much work": """
def setup():
    for _ in range(100):
        for _ in range(100):
            for _ in range(100):
                total = sum(n * n for n in range(100))
def main(use_graph=False):
    setup()
    x = torch.ones(2, device="cuda")
    if use_graph:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.cuda.synchronize()  # found
            y = x * 2
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_capture_is_read(name: str) -> None:
    text = f"import torch\n{PROGRAMS[name]}"
    wanted = [number for number, line in enumerate(text.splitlines(), 1) if "# found" in line]
    report = check_text(text, "program.py", None, Options())
    assert [finding.line for finding in report.findings if finding.id == "CG208"] == wanted
    assert len(report.regions) == 1


def test_a_flag_that_leads_to_the_capture_is_set_in_it() -> None:
    text = """
import torch
def run(x, use_graph=False):
    if use_graph:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            if not use_graph:
                torch.cuda.synchronize()
            y = x * 2
run(torch.ones(2).cuda())
"""
    report = check_text(text, "program.py", None, Options())
    assert [region.line for region in report.regions] == [5]
    assert report.findings == []


def test_what_the_program_does_without_the_flag_is_not_captured() -> None:
    text = """
import torch
def run(x, use_graph=False):
    if not use_graph:
        torch.cuda.synchronize()
        return (x * 2).sum().item()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        y = x * 2
run(torch.ones(2).cuda())
"""
    report = check_text(text, "program.py", None, Options())
    assert [region.line for region in report.regions] == [7]
    assert report.findings == []


def test_a_function_that_makes_the_capture_is_not_taken_as_captured() -> None:
    text = """
import torch
def capture(model, x):
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = model(x)
    torch.cuda.synchronize()
    def run(new):
        x.copy_(new)
        g.replay()
        return y.clone()
    return run
"""
    report = check_text(text, "program.py", "capture", Options())
    assert report.findings == []
    assert [region.line for region in report.regions] == [6]
    assert report.notes == ["program.py: capture makes a capture, it is not captured itself: what the file captures was read"]


def test_a_named_function_that_cannot_be_reached_is_not_called_clean() -> None:
    text = """
def outer(flag):
    raise ValueError
    class Step:
        def run(self, x):
            return x.item()
"""
    report = check_text(text, "program.py", "outer.Step.run", Options())
    assert [(part.name, part.line) for part in report.unread] == [("outer.Step.run", 5)]


def test_a_function_without_parameters_that_captures_and_replays_is_a_program_of_its_own() -> None:
    text = """
import torch
def demo():
    x = torch.zeros(4, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = x * 2
    g.replay()
    return y.sum().item()
"""
    report = check_text(text, "program.py", "demo", Options())
    assert not report.findings
    assert report.notes == ["program.py: demo makes a capture, it is not captured itself: what the file captures was read"]
