import torch


def step(x, y):
    return torch.tanh(x) @ y.t()


def as_tuple():
    return torch.randn(8, 16, device="cuda"), torch.randn(4, 16, device="cuda")


def as_list():
    return list(as_tuple())


def as_dict():
    x, y = as_tuple()
    return {"y": y, "x": x}


def as_both():
    x, y = as_tuple()
    return (x,), {"y": y}


def as_generator():
    yield from as_tuple()


def norm(x):
    return x.norm(dim=-1)


def one_tensor():
    return torch.randn(8, 16, device="cuda")


def of_batch(batch):
    return batch["x"] @ batch["y"].t()


def cpu_inputs():
    return torch.randn(8, 16), torch.randn(4, 16)


def keyword_only(*, x, y):
    return x.sum() - y.sum()
