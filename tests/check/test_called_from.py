"""The calls that lead to a finding: each is a line of the file that it names, and a line that calls."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths

if TYPE_CHECKING:
    from pathlib import Path

# As in flash-attention: an autograd function whose `apply` has a name of its own, called from another file.
PADDING = """
    import torch

    class IndexFirstAxis(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input, indices):
            return input[indices].sum().item()

    index_first_axis = IndexFirstAxis.apply
"""
BERT = """
    import torch
    from padding import index_first_axis

    def step(x, indices):
        return index_first_axis(x, indices)
"""
CAPTURE = """
    import torch

    class Meter:
        def read(self, x):
            return x.sum().item()

    def capture(x):
        meter = Meter()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = (
                meter
                .read(x)
            )
        return graph, out
"""
IN_CLASS = """
    import torch

    def step(x):
        class Sizes:
            most = x.sum().item()
        return Sizes
"""


@pytest.mark.parametrize(
    ("files", "target", "expected"),
    [
        ({"padding.py": PADDING, "bert.py": BERT}, "bert.py:step", (7, ("bert.py:6 in step",))),
        ({"train.py": CAPTURE}, "train.py", (6, ("train.py:14 in capture",))),
        ({"train.py": IN_CLASS}, "train.py:step", (6, ())),
    ],
    ids=["autograd function", "a function that nobody calls", "the body of a class"],
)
def test_only_lines_that_call_are_named(
    files: dict[str, str],
    target: str,
    expected: tuple[int, tuple[str, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    findings = check_paths([target], Options()).findings
    assert expected in [(finding.line, finding.via) for finding in findings if finding.id == "CG201"]
