"""capture-in-loop: the step is captured anew in every iteration and each graph is replayed once."""

import torch

DEVICE = "cuda"


def batches(rows=4, count=4):
    return [torch.randn(rows, 8, device=DEVICE) for _ in range(count)]


def step(x):
    return (x * 2).softmax(-1)


def capture_bad_in_the_training_loop():
    static_x = torch.zeros(4, 8, device=DEVICE)
    step(static_x)
    right = True
    for batch in batches():
        static_x.copy_(batch)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # CG409
            out = step(static_x)
        graph.replay()
        right = right and torch.allclose(out, step(batch))
    return right


def run_graphed(function, x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # CG409
        out = function(x)
    graph.replay()
    return out.clone()


def capture_bad_helper_called_per_batch():
    step(torch.zeros(4, 8, device=DEVICE))
    return all([torch.allclose(run_graphed(step, batch), step(batch)) for batch in batches()])


def capture_good_once_before_the_loop():
    static_x = torch.zeros(4, 8, device=DEVICE)
    step(static_x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(static_x)
    right = True
    for batch in batches():
        static_x.copy_(batch)
        graph.replay()
        right = right and torch.allclose(out, step(batch))
    return right


def capture_good_first_iteration_only():
    static_x = torch.zeros(4, 8, device=DEVICE)
    graph, right = None, True
    for batch in batches():
        static_x.copy_(batch)
        if graph is None:
            step(static_x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = step(static_x)
        graph.replay()
        right = right and torch.allclose(out, step(batch))
    return right


class Buckets:
    def __init__(self):
        self.graphs = {}
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, rows):
        x = torch.zeros(rows, 8, device=DEVICE)
        step(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = step(x)
        self.graphs[rows] = (graph, x, out)

    def run(self, batch):
        if batch.shape[0] not in self.graphs:
            self.capture(batch.shape[0])
        graph, x, out = self.graphs[batch.shape[0]]
        x.copy_(batch)
        graph.replay()
        return out.clone()


def capture_good_one_graph_per_size():
    buckets = Buckets()
    for rows in (8, 4, 2):
        buckets.capture(rows)
    return all([torch.allclose(buckets.run(batch), step(batch)) for rows in (2, 4, 8) for batch in batches(rows)])


def capture_good_cache_filled_on_demand():
    buckets = Buckets()
    return all([torch.allclose(buckets.run(batch), step(batch)) for rows in (4, 2, 4) for batch in batches(rows, 2)])
