"""capturable-runs-eager-warning: a copied capturable optimizer steps eagerly."""

import copy
import warnings

import torch
from torch import nn


def _model_with_grads() -> nn.Module:
    model = nn.Linear(64, 64).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def fails() -> None:
    """The mark that silences a fresh instance is not part of a copy."""
    model = _model_with_grads()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    _, copied = copy.deepcopy((model, opt))
    copied.step()


def works() -> None:
    """A fresh instance warms up silently, and only the graph steps afterwards."""
    warnings.filterwarnings("error", message="This instance was constructed")
    model = _model_with_grads()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    opt.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    for number in (2, 3):
        model.weight.grad.normal_()
        graph.replay()
        assert float(opt.state[model.weight]["step"]) == number
