import torch


def tensor():
    return torch.ones(3)


def nothing():
    return None


def no_fn():
    return {"function": lambda x: x, "inputs": lambda: (torch.ones(3, device="cuda"),)}


def fn_is_tensor():
    return {"fn": torch.ones(3), "inputs": lambda: ()}


def raises():
    raise OSError("no weights here")


def needs_argument(config):
    return {"fn": lambda: None, "inputs": lambda: ()}


def inputs_is_tuple():
    w = torch.randn(16, device="cuda")
    return {"fn": lambda x: x * w, "inputs": (torch.randn(8, 16, device="cuda"),)}
