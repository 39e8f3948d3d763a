"""graphed-callable-other-shape: the last, smaller batch goes into a graphed module."""

import torch
from torch import nn


def fails() -> None:
    """16 rows do not fit into the static input of 32."""
    model = nn.Linear(64, 64).cuda()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    graphed(torch.randn(16, 64, device="cuda"))


def works() -> None:
    """The batch is padded, the output sliced."""
    model = nn.Linear(64, 64).cuda()
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    for rows in (32, 16):
        x = torch.randn(rows, 64, device="cuda")
        out = graphed(nn.functional.pad(x, (0, 0, 0, 32 - rows)))[:rows]
        torch.testing.assert_close(out, nn.functional.linear(x, weight, bias))
