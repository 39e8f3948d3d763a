"""rng-state-reset: the generator is set back at the end of the region, so replays draw the same numbers again."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 16, device=DEVICE),)


def inputs_good_drawn_under_fork_outside():
    """The noise is drawn apart from the rest of the random numbers, before the step."""
    x = torch.randn(4, 16, device=DEVICE)
    with torch.random.fork_rng():
        noise = torch.randn(4, 16, device=DEVICE)
    return x, noise


class Isolated:
    """Leaves the generator as it was found."""

    def __enter__(self):
        self.state = torch.cuda.get_rng_state()
        return self

    def __exit__(self, *exception):
        torch.cuda.set_rng_state(self.state)  # CG606


class Probe(nn.Module):
    """A noisy second pass that shall not disturb the random numbers of the first."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        with Isolated():
            return self.fc(F.dropout(x, 0.5))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        return F.dropout(self.fc(x), 0.5).tanh()


probe = Probe().to(DEVICE).requires_grad_(False)
block = Block().to(DEVICE)


def bad_forked_noise(x):
    with torch.random.fork_rng(devices=[torch.cuda.current_device()]):  # CG606
        noise = torch.randn_like(x)
    return x + noise


def bad_isolated_probe(x):
    return probe(x)


def bad_state_put_back(x):
    saved = torch.cuda.get_rng_state()
    mask = torch.rand_like(x) < 0.5
    torch.cuda.set_rng_state(saved)  # CG606
    return torch.where(mask, x, -x)


def good_plain_noise(x):
    return x + torch.randn_like(x)


def good_fork_of_cpu_only(x):
    with torch.random.fork_rng(devices=[]):
        noise = torch.randn_like(x)
    return x + noise


def good_fork_switched_off(x):
    with torch.random.fork_rng(enabled=False):
        return F.dropout(x, 0.5)


def good_cpu_state_put_back(x):
    saved = torch.get_rng_state()
    out = x * torch.rand_like(x)
    torch.set_rng_state(saved)
    return out


def good_drawn_under_fork_outside(x, noise):
    return x + noise


def good_recomputed_dropout(x):
    loss = checkpoint(block, x, use_reentrant=False).square().mean()
    return torch.autograd.grad(loss, block.fc.weight)[0]
