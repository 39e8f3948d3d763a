"""autocast-around-graphing: make_graphed_callables is called in an autocast block that caches its casts."""

import contextlib

import torch
from torch import nn

DEVICE = "cuda"


class Cast(nn.Module):
    """Has its own autocast block."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        with torch.autocast("cuda", torch.bfloat16):
            return self.body(x)


def build():
    torch.manual_seed(0)
    model, twin = (nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8)).to(DEVICE) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    return model, twin


def sample():
    return torch.randn(8, 32, device=DEVICE)


def agrees(graphed, twin, *, half):
    """Whether two calls of the graphed module agree with its eager twin."""
    right = []
    for _ in range(2):
        x = sample()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled=False):
            want = twin(x)
        right.append(torch.allclose(graphed(x).detach().float(), want.float(), rtol=2e-2, atol=2e-2))
    return all(right)


@torch.autocast("cuda", dtype=torch.float16)
def graph_decorated(model):
    return torch.cuda.make_graphed_callables(model, (sample(),))  # CG608


class Engine:
    def __init__(self, model):
        self.amp = torch.autocast("cuda", torch.bfloat16)
        with self.amp:
            self.model = self.accelerated(model)

    def accelerated(self, model):
        return torch.cuda.make_graphed_callables(model, (sample(),))  # CG608


def capture_bad_in_the_block():
    model, twin = build()
    with torch.autocast("cuda", torch.bfloat16):
        graphed = torch.cuda.make_graphed_callables(model, (sample(),))  # CG608
    return agrees(graphed, twin, half=True)


def capture_bad_in_decorated_function():
    model, twin = build()
    return agrees(graph_decorated(model), twin, half=True)


def capture_bad_in_constructor_of_engine():
    model, twin = build()
    return agrees(Engine(model).model, twin, half=True)


def capture_bad_in_exit_stack():
    model, twin = build()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.autocast(device_type="cuda", dtype=torch.bfloat16))
        graphed = torch.cuda.make_graphed_callables(model, (sample(),))  # CG608
    return agrees(graphed, twin, half=True)


def capture_good_cache_off():
    model, twin = build()
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        graphed = torch.cuda.make_graphed_callables(model, (sample(),))
    return agrees(graphed, twin, half=True)


def capture_good_block_in_the_module():
    model, twin = build()
    return agrees(torch.cuda.make_graphed_callables(Cast(model), (sample(),)), twin, half=True)


def capture_good_block_switched_off():
    model, twin = build()
    with torch.autocast("cuda", torch.bfloat16, enabled=False):
        graphed = torch.cuda.make_graphed_callables(model, (sample(),))
    return agrees(graphed, twin, half=False)


def capture_good_block_for_the_cpu():
    model, twin = build()
    with torch.autocast("cpu", torch.bfloat16):
        graphed = torch.cuda.make_graphed_callables(model, (sample(),))
    return agrees(graphed, twin, half=False)
