"""The calls that lead to a finding: each is a line of the file that it names, and a line that calls."""

from __future__ import annotations

import json
import re
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths, output
from cudagraph_skill.check.input.source import lines_of
from cudagraph_skill.text import Steps

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


CELLS = (
    """
    import torch
    x = torch.ones(3, device="cuda")
    class Step:
        def __call__(self, x):
            return x.sum().item()
    step = Step()
    """,
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        if unknown():
            print("line 3")
            step(x)
        try:
            x.cpu()
        except RuntimeError:
            pass
    """,
)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    cells = [{"cell_type": "code", "source": dedent(cell).strip()} for cell in CELLS]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return "a.ipynb"


@pytest.mark.parametrize("form", ["full", "concise", "github", "sarif"])
def test_sentences_about_a_notebook_name_cell_and_line(notebook: str, form: str) -> None:
    report = check_paths([notebook], Options(explain=True))
    assert report.findings
    text = output.written(report, form, output.Reader(Steps(*[str] * 4), lines_of))
    assert form == "sarif" or "a.ipynb:cell 2:2 " in text  # the captured region
    assert not re.search(r"a\.ipynb:\d|ipynb,line=", text)
    if form == "full":
        assert "called from: a.ipynb:cell 2:5 in <module>" in text
        assert "(a.ipynb:cell 2:3), of which nothing is known" in text
        assert "the except of cell 2:8 cannot save" in text
        assert 'print("line 3")' in text


def test_regions_of_a_notebook_have_their_cell_in_json(notebook: str) -> None:
    report = check_paths([notebook], Options())
    data = output.data(report, output.Reader(Steps(*[str] * 4), lines_of))
    assert [region["cell"] for region in data["regions"]] == ["cell 2:2"]
    assert {finding["cell"] for finding in data["findings"]} >= {"cell 1:5", "cell 2:4"}
