"""batchnorm-statistics-drift: the warm-up inside `make_graphed_callables` moves the running statistics."""

import copy

import torch
from torch import nn


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).cuda()


def fails() -> None:
    """Not one training step was made, yet the statistics have seen three batches of dummy data."""
    net = _net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    torch.cuda.make_graphed_callables(net, (torch.full((16, 8), 100.0, device="cuda"),))
    assert not torch.equal(net[1].running_mean, before["1.running_mean"])
    assert net[1].num_batches_tracked.item() > 0


def works() -> None:
    """Saved before, copied back after: from there on every replay counts once."""
    net = _net()
    eager = copy.deepcopy(net)
    saved = {name: value.clone() for name, value in net.state_dict().items()}
    torch.cuda.make_graphed_callables(net, (torch.randn(16, 8, device="cuda"),))
    net.load_state_dict(saved)
    for scale in (1.0, 5.0):
        batch = torch.randn(16, 8, device="cuda") * scale
        torch.testing.assert_close(net(batch), eager(batch), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(net[1].running_mean, eager[1].running_mean, rtol=1e-3, atol=1e-4)
    assert net[1].num_batches_tracked.item() == 2
