"""pool-per-graph: several graphs are captured and kept, each with a memory pool of its own."""

import torch

DEVICE = "cuda"


def step(x):
    return (x * 2).softmax(-1)


def capture(x, pool=None):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        out = step(x)
    return graph, x, out


def replays_agree(graphs):
    right = True
    for graph, x, out in graphs:
        x.copy_(torch.randn(x.shape, device=DEVICE))
        graph.replay()
        right = right and torch.allclose(out, step(x))
    return right


def capture_bad_graph_per_bucket():
    graphs = {}
    for rows in (32, 16, 8):
        x = torch.zeros(rows, 8, device=DEVICE)
        step(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # CG505
            out = step(x)
        graphs[rows] = (graph, x, out)
    return replays_agree(graphs.values())


def capture_bad_encoder_and_decoder():
    x, h = torch.zeros(16, 8, device=DEVICE), torch.zeros(4, 8, device=DEVICE)
    step(x)
    step(h)
    encode, decode = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(encode):
        encoded = step(x)
    with torch.cuda.graph(decode):  # CG505
        decoded = step(h)
    return replays_agree([(encode, x, encoded), (decode, h, decoded)])


class Buckets:
    def __init__(self):
        self.graphs = []

    def add(self, rows):
        x = torch.zeros(rows, 8, device=DEVICE)
        step(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # CG505
            out = step(x)
        self.graphs.append((graph, x, out))


def capture_bad_list_of_graphs():
    buckets = Buckets()
    for rows in (32, 16):
        buckets.add(rows)
    return replays_agree(buckets.graphs)


def capture_good_one_handle():
    handle = torch.cuda.graph_pool_handle()
    step(torch.zeros(32, 8, device=DEVICE))
    return replays_agree([capture(torch.zeros(rows, 8, device=DEVICE), handle) for rows in (32, 16, 8)])


def capture_good_pool_of_the_first():
    x, h = torch.zeros(16, 8, device=DEVICE), torch.zeros(4, 8, device=DEVICE)
    step(x)
    step(h)
    encode, decode = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(encode):
        encoded = step(x)
    with torch.cuda.graph(decode, pool=encode.pool()):
        decoded = step(h)
    return replays_agree([(encode, x, encoded), (decode, h, decoded)])


def capture_good_single_graph():
    x = torch.zeros(16, 8, device=DEVICE)
    step(x)
    return replays_agree([capture(x)])
