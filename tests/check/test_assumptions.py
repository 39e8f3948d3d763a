"""Captured code that reads a value of which nothing is known: reported as likely, and told apart from what is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths, check_text
from cudagraph_skill.check.input.settings import chosen, settings

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import torch
from elsewhere import Model, build
from transformers import AutoModel

def run(model, x, loss_fn):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = model(x)
        {}
"""
READS = {
    "y.item()": "CG201",
    "y.sum().item()": "CG201",
    "y.logits.argmax(-1).cpu()": "CG203",
    "y.tolist()": "CG203",
    "loss_fn(y, x).item()": "CG201",
    "torch.nonzero(y)": "CG211",
    "z = y[y > 0]": "CG210",
    "z = y * 2; z.mean().item()": "CG201",
    "z = y + 1 if y.sum() > 0 else y": "CG202",
    "print(y.sum().item())": "CG201",
    "while y.isnan().any(): y = model(x)": "CG202",
    "Model().cuda()(x).item()": "CG201",
    "build('resnet')(x).sum().item()": "CG201",
    "AutoModel.from_pretrained('gpt2')(x).last_hidden_state.sum().item()": "CG201",
}
INNOCENT = (
    "z = y * 2",
    "z = y.logits.argmax(-1)",
    "z, w = model(x)",
    "for part in y: part = part * 2",
    "if y is not None: z = y + 1",
    "n = len(y)",
    "z = y.to(torch.float16)",
    "z = x.clone(); z.copy_(y)",
    "torch.where(y > 0, y, 0)",
    "y.loss.backward()",
    "n = y.shape[0]",
    "rate = model.config.rate.item()",
    "lengths = y.lengths_cpu.tolist()",
    "host = y.seq_lens_host.max().item()",
)


@pytest.mark.parametrize("statement", READS)
def test_a_read_of_an_unknown_result_is_likely(statement: str) -> None:
    report = check_text(PROGRAM.format(statement), "program.py", None, Options())
    found = {(finding.line, finding.id, finding.certain) for finding in report.findings if finding.id != "CG108"}
    assert (10, READS[statement], False) in found
    assert not [item for item in found if item[2]]


@pytest.mark.parametrize("statement", INNOCENT)
def test_what_leaves_the_result_on_the_gpu_is_not_reported(statement: str) -> None:
    report = check_text(PROGRAM.format(statement), "program.py", None, Options())
    assert [finding for finding in report.findings if finding.id != "CG504"] == []


def test_what_is_certain_stays_so() -> None:
    text = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\nx = torch.ones(2, device='cuda')\nmodel(x)\n"
    text += "with torch.cuda.graph(torch.cuda.CUDAGraph()):\n    y = model(x).sum().item()\n"
    (finding,) = check_text(text, "program.py", None, Options()).findings
    assert (finding.id, finding.certain) == ("CG201", True)


@pytest.mark.parametrize(
    ("select", "ignore", "certain", "wanted"),
    [
        ((), (), False, True),
        ((), ("LIKELY",), False, False),
        ((), ("LIKELY",), True, True),
        (("LIKELY",), (), False, True),
        (("LIKELY",), (), True, False),
        (("CG2",), (), False, True),
        (("CG201",), ("LIKELY",), False, False),
    ],
)
def test_likely_selects_and_ignores(select: tuple[str, ...], ignore: tuple[str, ...], certain: bool, wanted: bool) -> None:
    assert chosen("CG201", Options(select, ignore), certain=certain) is wanted


def test_the_word_is_taken_where_ids_are(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format("y.item()"))
    assert len(check_paths([str(path)], settings(path, Options())).findings) == 1
    assert check_paths([str(path)], settings(path, Options(ignore=("likely",)))).findings == []


TRAINING = """
import torch

def train(model, optimizer, loader):
    x = torch.zeros(8, 16, device="cuda")
    y = torch.zeros(8, 16, device="cuda")
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    {before}
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
    for inputs, targets in loader:
        {between}
        g.replay()
"""


@pytest.mark.parametrize(
    ("before", "between", "wanted"),
    [
        ("optimizer.zero_grad(set_to_none=True)", "x.copy_(inputs); y.copy_(targets)", []),
        ("model.zero_grad()", "x.copy_(inputs); y.copy_(targets)", []),
        ("pass", "optimizer.zero_grad(set_to_none=False); x.copy_(inputs); y.copy_(targets)", []),
        ("optimizer.zero_grad()", "x = inputs.cuda(); y.copy_(targets)", [("CG304", False)]),
        ("optimizer.zero_grad()", "x, y = inputs, targets", [("CG304", False)]),
    ],
)
def test_a_model_and_an_optimizer_from_elsewhere(before: str, between: str, wanted: list[tuple[str, bool]]) -> None:
    report = check_text(TRAINING.format(before=before, between=between), "program.py", None, Options())
    assert [(finding.id, finding.certain) for finding in report.findings] == wanted


DISTRIBUTION = """
import torch
import torch.distributions as D
from torch.distributions import Distribution, Normal
{}

def step(x: torch.Tensor):
    return Normal(x, x.abs()).rsample()
"""


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("pass", ["CG228"]),
        ("Distribution.set_default_validate_args(True)", ["CG228"]),
        ("Distribution.set_default_validate_args(False)", []),
        ("Distribution.set_default_validate_args(value=False)", []),
        ("torch.distributions.Distribution.set_default_validate_args(False)", []),
        ("D.distribution.Distribution.set_default_validate_args(False)", []),
        ("D.Normal.set_default_validate_args(False)", []),
        ("OFF = False\nDistribution.set_default_validate_args(OFF)", []),
    ],
)
@pytest.mark.parametrize("options", [Options(), Options(every=True)])
def test_the_default_for_validation_is_followed(statement: str, wanted: list[str], options: Options) -> None:
    report = check_text(DISTRIBUTION.format(statement), "program.py", None if options.every else "step", options)
    assert [finding.id for finding in report.findings] == wanted
