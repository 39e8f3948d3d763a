"""unfinished-download: the CPU reads a non_blocking copy before anything has waited for it."""

import torch

DEVICE = "cuda"
SLOW = 100_000_000  # GPU clock cycles: stands for a long kernel
pinned = torch.zeros(4, 8, pin_memory=DEVICE == "cuda")


def slow(x):
    torch.cuda._sleep(SLOW)
    return x * 2


def capture_bad_limit_read_in_the_region():
    x = torch.ones(4, 8, device=DEVICE)

    def step():
        host = x.amax().to("cpu", non_blocking=True)
        return x / float(host)  # CG506

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    x.copy_(torch.rand(4, 8, device=DEVICE) + 5)
    graph.replay()
    return torch.allclose(out, x / x.amax())


def capture_bad_read_right_after_replay():
    x = torch.ones(4, 8, device=DEVICE)
    host = torch.zeros(4, 8, pin_memory=True)

    def step():
        host.copy_(slow(x), non_blocking=True)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    x.fill_(4.0)
    graph.replay()
    seen = host[0].tolist()  # CG506
    torch.cuda.synchronize()
    return seen == [8.0] * 8


class Monitor:
    def __init__(self):
        self.host = torch.zeros(4, 8, pin_memory=True)
        self.done = torch.cuda.Event()

    def fetch(self, t):
        self.host.copy_(t, non_blocking=True)
        self.done.record()

    def peek(self):
        return float(self.host.sum())  # CG506

    def wait(self):
        self.done.synchronize()
        return float(self.host.sum())


def graph_of_slow(x):
    slow(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = slow(x)
    return graph, out


def capture_bad_monitor_that_does_not_wait():
    monitor, x = Monitor(), torch.ones(4, 8, device=DEVICE)
    graph, out = graph_of_slow(x)
    graph.replay()
    monitor.fetch(out)
    seen = monitor.peek()
    torch.cuda.synchronize()
    return seen == 64.0


def capture_good_monitor_that_waits():
    monitor, x = Monitor(), torch.ones(4, 8, device=DEVICE)
    graph, out = graph_of_slow(x)
    graph.replay()
    monitor.fetch(out)
    return monitor.wait() == 64.0


def capture_good_synchronised_copy_in_the_region():
    x = torch.ones(4, 8, device=DEVICE)
    slow(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        pinned.copy_(slow(x), non_blocking=True)
    graph.replay()
    torch.cuda.current_stream().synchronize()
    return float(pinned[0, 0]) == 2.0


def capture_good_blocking_copy_after_replay():
    x = torch.ones(4, 8, device=DEVICE)
    graph, out = graph_of_slow(x)
    graph.replay()
    return float(out.cpu()[0, 0]) == 2.0 and out.sum().item() == 64.0
