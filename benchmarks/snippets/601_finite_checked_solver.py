"""Fixed number of fluid relaxation sweeps with a checking decorator."""
import functools

import torch
import torch.nn.functional as F


def checked(fn):
    """Raise early when a field leaves the representable range."""
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        out = fn(*args, **kwargs)
        if not torch.isfinite(out).all():
            raise FloatingPointError(f"{fn.__name__} diverged")
        return out
    return wrapper


def laplacian(u):
    u = F.pad(u, (1, 1, 1, 1), mode="circular")
    return u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2] - 4 * u[..., 1:-1, 1:-1]


@checked
def diffuse(u, rate):
    return u + rate * laplacian(u)


@checked
def react(u, gain):
    return u + gain * u * (1 - u) * (u - 0.3)


class Relaxation:
    def __init__(self, sweeps=4, rate=0.1, gain=0.05):
        self.sweeps, self.rate, self.gain = sweeps, rate, gain

    def run(self, u):
        for _ in range(self.sweeps):
            u = react(diffuse(u, self.rate), self.gain)
        return u


def make(device="cuda"):
    solver = Relaxation()
    field = torch.zeros(1, 1, 16, 16, device=device)

    def advance(source):
        field.copy_(solver.run(0.9 * field + source))
        return field.mean(dim=(2, 3))

    def inputs():
        return (torch.rand(1, 1, 16, 16, device=device) * 0.1,)

    return {"fn": advance, "inputs": inputs, "state": lambda: [field], "kind": "inference"}
