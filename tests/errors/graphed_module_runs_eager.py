"""graphed-module-runs-eager: the train/eval mode differs from the one at graphing time."""

import torch
from torch import nn


def fails() -> None:
    """Graphed in train mode, called in eval mode: outputs are new tensors, so no graph ran."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda()
    x = torch.randn(32, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    trained = [graphed(x) for _ in range(2)]
    graphed.eval()
    evaluated = [graphed(x) for _ in range(2)]
    assert trained[0].data_ptr() == trained[1].data_ptr()
    assert evaluated[0].data_ptr() != evaluated[1].data_ptr()


def works() -> None:
    """Graphed in the mode in which it is called."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda().eval()
    weight, bias = model[0].weight.detach().clone(), model[0].bias.detach().clone()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
    pointers = set()
    for _ in range(2):
        x = torch.randn(32, 64, device="cuda")
        out = graphed(x)
        pointers.add(out.data_ptr())
        torch.testing.assert_close(out, nn.functional.linear(x, weight, bias).relu())
    assert len(pointers) == 1
