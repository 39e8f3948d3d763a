"""Corrections that the check offers: applied, they parse, and the finding is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import Options, check_paths, fixes

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """\
import torch
from torch import nn
model = nn.Linear(8, 8).cuda()
opt = torch.optim.Adam(
    model.parameters(),
    lr=1e-3,
)
host = torch.zeros(8, 8, pin_memory=True)
dev = torch.zeros(8, 8, device="cuda")
def step(x):
    opt.zero_grad()
    {}
    loss = (model(x) + dev).square().mean()
    loss.backward()
    opt.step()
    return loss.detach()
"""


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("x = x * torch.tensor(0.5, device=x.device)", "x = x * torch.full((), 0.5, device=x.device)"),
        ("dev.copy_(host)", "dev.copy_(host, non_blocking=True)"),
        ("dev.copy_(host, non_blocking=False)", "dev.copy_(host, non_blocking=True)"),
        (
            "nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
            "nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=False)",
        ),
        (
            "x = torch.distributions.Normal(x, x.abs()).rsample()",
            "x = torch.distributions.Normal(x, x.abs(), validate_args=False).rsample()",
        ),
    ],
)
def test_a_correction_removes_what_it_was_offered_for(line: str, corrected: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(TRAIN.format(line))
    report = check_paths([f"{file}:step"], Options())
    assert {finding.id for finding in report.findings} > {"CG235"}
    notes: list[str] = []
    for patch in fixes.patches(report, notes, [str(tmp_path)]):
        fixes.apply(patch)
    assert notes == []
    assert corrected in file.read_text()
    assert "    lr=1e-3, capturable=True,\n)" in file.read_text()
    assert check_paths([f"{file}:step"], Options()).findings == []
