import torch


def _step(x):
    return torch.tanh(x * 2 + 1).sum(-1)


step = torch.compile(_step)
traced = torch.compile(_step, backend="aot_eager")
