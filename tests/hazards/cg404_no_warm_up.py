"""no-warm-up: the captured code meets a library for the first time while the capture is open."""

import torch
from torch import nn

DEVICE = "cuda"


def warm_up(step, times=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            step()
    torch.cuda.current_stream().wait_stream(side)


def capture_bad_first_convolution():
    conv = nn.Conv2d(3, 8, 3).to(DEVICE).requires_grad_(False)
    x = torch.randn(2, 3, 32, 32, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # CG404
        out = conv(x)
    graph.replay()
    return torch.allclose(out, conv(x), atol=1e-2)


def capture_bad_first_matmul():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(DEVICE).requires_grad_(False)
    x = torch.randn(32, 64, device=DEVICE)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # CG404
        out = model(x)
    graph.replay()
    return torch.allclose(out, model(x), atol=1e-3)


def capture_bad_first_spectrum():
    signal = torch.randn(4, 8191, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # CG404
        out = torch.fft.rfft(signal).abs()
    graph.replay()
    return torch.allclose(out, torch.fft.rfft(signal).abs(), atol=1e-2)


def capture_good_warmed_spectrum():
    signal = torch.randn(4, 4093, device=DEVICE)

    def step():
        return torch.fft.rfft(signal).abs()

    warm_up(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    signal.copy_(torch.randn(4, 4093, device=DEVICE))
    graph.replay()
    return torch.allclose(out, step(), atol=1e-2)


def capture_good_called_once_before():
    signal = torch.randn(4, 2039, device=DEVICE)
    torch.fft.rfft(signal)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.fft.rfft(signal).abs()
    signal.copy_(torch.randn(4, 2039, device=DEVICE))
    graph.replay()
    return torch.allclose(out, torch.fft.rfft(signal).abs(), atol=1e-2)


def capture_good_graphed_callable():
    model = nn.Sequential(nn.LayerNorm(64), nn.GELU()).to(DEVICE)
    reference = nn.Sequential(nn.LayerNorm(64), nn.GELU()).to(DEVICE)
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device=DEVICE),))
    x = torch.randn(32, 64, device=DEVICE)
    return torch.allclose(graphed(x), reference(x), atol=1e-4)


def capture_good_elementwise_needs_none():
    x = torch.zeros(16, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x * 2 + 1
    x.fill_(3.0)
    graph.replay()
    return torch.equal(out, x * 2 + 1)
