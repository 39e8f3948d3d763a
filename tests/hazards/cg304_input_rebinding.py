"""input-rebinding: the next batch is assigned to the name of the captured input, and the graph keeps reading the old one."""

import torch
from torch import nn

DEVICE = "cuda"


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(DEVICE).requires_grad_(False)
    return model, [torch.randn(8, 16, device=DEVICE) for _ in range(3)]


def close(got, want):
    return torch.allclose(got, want, rtol=1e-3, atol=1e-4)


def warm_up(step, x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x)
    torch.cuda.current_stream().wait_stream(side)


class Runner:
    def __init__(self, model, example):
        warm_up(model, example)
        self.x = example.clone()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = model(self.x)

    def assigned(self, batch):
        self.x = batch  # CG304
        self.graph.replay()
        return self.out

    def copied(self, batch):
        self.x.copy_(batch)
        self.graph.replay()
        return self.out


def capture_bad_batch_assigned():
    model, batches = build()
    static = {"features": batches[0].clone(), "scale": torch.ones((), device=DEVICE)}
    warm_up(model, static["features"])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(static["features"]) * static["scale"]
    right = []
    for batch in batches:
        static["features"] = batch  # CG304
        graph.replay()
        right.append(close(out, model(batch)))
    return all(right)


def capture_bad_attribute_of_runner():
    model, batches = build()
    runner = Runner(model, batches[0])
    return all([close(runner.assigned(batch), model(batch)) for batch in batches])


def capture_bad_loop_variable():
    model, batches = build()
    x = batches[0].clone()
    warm_up(model, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)
    right = []
    for x in batches:  # CG304
        graph.replay()
        right.append(close(out, model(x)))
    return all(right)


def capture_good_copied_into_place():
    model, batches = build()
    static_x = batches[0].clone()
    warm_up(model, static_x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(static_x)
    right = []
    for batch in batches:
        static_x = static_x.copy_(batch)
        graph.replay()
        right.append(close(out, model(static_x)))
    return all(right)


def capture_good_method_that_copies():
    model, batches = build()
    runner = Runner(model, batches[0])
    return all([close(runner.copied(batch), model(batch)) for batch in batches])


def capture_good_graphed_callable_copies():
    first, second = (nn.Linear(16, 4).to(DEVICE).requires_grad_(False) for _ in range(2))
    second.load_state_dict(first.state_dict())
    x = torch.randn(8, 16, device=DEVICE)
    graphed = torch.cuda.make_graphed_callables(first, (x,))
    x = torch.randn(8, 16, device=DEVICE)
    return close(graphed(x), second(x))
