"""autocast-cache: the cast of a weight was cached before the capture, so the graph reads an old copy of the weight."""

import torch
from torch import nn

DEVICE = "cuda"


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).to(DEVICE)
    return model, torch.randn(8, 32, device=DEVICE)


def warm_up(model, x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)


def agrees(graph, out, model, x):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-2.0)
    graph.replay()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        want = model(x)
    return torch.allclose(out.detach().float(), want.float(), rtol=2e-2, atol=2e-2)


def record(model, x):
    warm_up(model, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)
    return graph, out


@torch.autocast("cuda", dtype=torch.bfloat16)  # CG607
def record_in_half_precision(model, x):
    return record(model, x)


class Service:
    def __init__(self):
        self.model, self.x = build()
        self.amp = torch.autocast("cuda", torch.bfloat16)

    def record(self):
        with self.amp:  # CG607
            return record(self.model, self.x)


def capture_bad_block_around_everything():
    model, x = build()
    with torch.autocast("cuda", torch.bfloat16):  # CG607
        graph, out = record(model, x)
    return agrees(graph, out, model, x)


def capture_bad_decorated_function():
    model, x = build()
    graph, out = record_in_half_precision(model, x)
    return agrees(graph, out, model, x)


def capture_bad_block_of_service():
    service = Service()
    graph, out = service.record()
    return agrees(graph, out, service.model, service.x)


def capture_good_block_inside():
    model, x = build()
    with torch.autocast("cuda", torch.bfloat16):
        warm_up(model, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.autocast("cuda", torch.bfloat16):
        out = model(x)
    return agrees(graph, out, model, x)


def capture_good_cache_off():
    model, x = build()
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        graph, out = record(model, x)
    return agrees(graph, out, model, x)


def capture_good_cache_cleared():
    model, x = build()
    graph = torch.cuda.CUDAGraph()
    with torch.autocast("cuda", torch.bfloat16):
        warm_up(model, x)
        torch.clear_autocast_cache()
        with torch.cuda.graph(graph):
            out = model(x)
    return agrees(graph, out, model, x)


def capture_good_frozen_weights_are_not_cached():
    model, x = build()
    model.requires_grad_(False)
    with torch.autocast("cuda", torch.bfloat16):
        graph, out = record(model, x)
    return agrees(graph, out, model, x)
