"""compile-inside: a compiled function meets these inputs for the first time inside the region, so it is compiled there."""

import torch

DEVICE = "cuda"


@torch.compile
def attention_weights(scores):
    return torch.softmax(torch.sin(scores), dim=-1) * 2, torch.tanh(scores[:4]) + 1


@torch.compile
def warmed_weights(scores):
    return torch.softmax(torch.cos(scores), dim=-1) * 3


def normalise(x):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5), x[:8].sigmoid() * 5


def centre(x):
    return x - x.amax(-1, keepdim=True)


class Scorer:
    def __init__(self, function, **options):
        self.run = torch.compile(function, **options)

    def score(self, x):
        return self.run(x)[0]  # CG407


def capture_bad_decorated_first_call():
    scores = torch.randn(64, 1024, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weights, gate = attention_weights(scores)  # CG407
    graph.replay()
    return weights.isfinite().all() and gate.isfinite().all()


def capture_bad_compiled_in_the_region():
    x = torch.randn(64, 1024, device=DEVICE)
    normalise(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, _ = torch.compile(normalise)(x)  # CG407
    graph.replay()
    return torch.allclose(out, normalise(x)[0], atol=1e-3)


def capture_bad_tuned_first_call():
    scorer = Scorer(lambda t: (torch.relu(t).sum(0) * 7, t.exp() - 1), mode="max-autotune-no-cudagraphs")
    x = torch.randn(512, 512, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = scorer.score(x)
    graph.replay()
    return torch.allclose(out, torch.relu(x).sum(0) * 7, atol=1e-2)


def capture_good_called_before():
    scores = torch.randn(64, 1024, device=DEVICE)
    for _ in range(2):
        warmed_weights(scores)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = warmed_weights(scores)
    scores.copy_(torch.randn(64, 1024, device=DEVICE))
    graph.replay()
    return torch.allclose(out, torch.softmax(torch.cos(scores), dim=-1) * 3, atol=1e-4)


def capture_good_warmed_on_a_side_stream():
    step = torch.compile(centre)
    x, stream = torch.randn(64, 1024, device=DEVICE), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = step(x)
    x.copy_(torch.randn(64, 1024, device=DEVICE))
    graph.replay()
    return torch.allclose(out, centre(x), atol=1e-4)


def capture_good_compiled_but_not_called():
    x = torch.randn(64, 1024, device=DEVICE)
    centre(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        later = torch.compile(centre)
        out = centre(x)
    x.copy_(torch.randn(64, 1024, device=DEVICE))
    graph.replay()
    return torch.equal(out, centre(x)) and callable(later)
