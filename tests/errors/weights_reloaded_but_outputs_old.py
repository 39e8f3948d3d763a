"""weights-reloaded-but-outputs-old: a checkpoint replaces the tensors that the graph reads."""

import torch
from torch import nn


def _record() -> tuple[torch.cuda.CUDAGraph, nn.Linear, torch.Tensor, torch.Tensor]:
    model = nn.Linear(64, 64).cuda()
    x = torch.randn(8, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = model(x)
    return graph, model, x, out


def _checkpoint() -> dict[str, torch.Tensor]:
    return {name: value.cuda() for name, value in nn.Linear(64, 64).state_dict().items()}


def fails() -> None:
    """`assign=True` gives the module new parameters; the graph reads the old ones."""
    graph, model, x, out = _record()
    old = [model.weight, model.bias]  # something else still holds them, so their memory is not reused
    graph.replay()
    before = out.clone()
    model.load_state_dict(_checkpoint(), assign=True)
    graph.replay()
    assert torch.equal(out, before)
    assert not torch.allclose(out, model(x))
    assert model.weight.data_ptr() != old[0].data_ptr()


def works() -> None:
    """Without `assign` the values are copied into the tensors that were captured."""
    graph, model, x, out = _record()
    address = model.weight.data_ptr()
    for _ in range(2):
        model.load_state_dict(_checkpoint())
        x.normal_()
        graph.replay()
        torch.testing.assert_close(out, model(x).detach(), rtol=1e-3, atol=1e-4)
    assert model.weight.data_ptr() == address
