"""The code of the references that is meant to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.corpus.fences import Fence, fences

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PRELUDE = """\
import torch; from torch import nn; import torch.nn.functional as F
torch.manual_seed(0); device = "cuda"
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
x = torch.randn(32, 64, device="cuda"); y = torch.randn(32, 64, device="cuda")
loss_fn = nn.MSELoss()
loader = [(torch.randn(32, 64), torch.randn(32, 64)) for _ in range(4)]
"""


def runnable(root: Path, patterns: Sequence[str]) -> list[Fence]:
    """Return the fences that are meant to run in the files of these patterns."""
    paths = [path.relative_to(root).as_posix() for pattern in patterns for path in sorted(root.glob(pattern))]
    return [fence for fence in fences(root, paths) if fence.info.split()[:2] == ["python", "run"]]
