"""output-kept: the output of a graph is kept over the next replay, which writes to the same memory."""

import torch
from torch import nn

DEVICE = "cuda"


class Embedder:
    """A graph that is called as a function; `wanted` holds what eager code gives."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Linear(16, 8).to(DEVICE).requires_grad_(False)
        self.batches = [torch.randn(4, 16, device=DEVICE) for _ in range(3)]
        self.wanted = [self.model(batch) for batch in self.batches]
        self.x = self.batches[0].clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.x)

    def __call__(self, batch):
        self.x.copy_(batch)
        self.graph.replay()
        return self.out

    def agrees(self, got):
        return all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(got, self.wanted, strict=True))


def capture_bad_list_of_outputs():
    embedder = Embedder()
    kept = []
    for batch in embedder.batches:
        embedder.x.copy_(batch)
        embedder.graph.replay()
        kept.append(embedder.out)  # CG308
    return embedder.agrees(kept)


def capture_bad_detach_is_no_copy():
    embedder = Embedder()
    kept = {}
    for number, batch in enumerate(embedder.batches):
        kept[number] = embedder(batch).detach()  # CG308
    return embedder.agrees(kept.values())


def capture_bad_previous_output():
    embedder = Embedder()
    changes, previous = [], torch.zeros(4, 8, device=DEVICE)
    for batch in embedder.batches:
        out = embedder(batch)
        changes.append(out - previous)
        previous = out  # CG308
    return embedder.agrees(torch.cumsum(torch.stack(changes), 0))


def capture_bad_outputs_of_graphed_callable():
    embedder = Embedder()
    graphed = torch.cuda.make_graphed_callables(embedder.model, (torch.randn(4, 16, device=DEVICE),))
    kept = [graphed(batch) for batch in embedder.batches]  # CG308
    return embedder.agrees(kept)


def capture_good_clones():
    embedder = Embedder()
    kept = []
    for batch in embedder.batches:
        kept.append(embedder(batch).clone())
    return embedder.agrees(kept)


def capture_good_new_tensor_of_the_output():
    embedder = Embedder()
    kept = [2.0 * embedder(batch) - embedder.out for batch in embedder.batches]
    return embedder.agrees(kept)


def capture_good_copied_into_a_buffer():
    embedder = Embedder()
    kept = torch.empty(3, 4, 8, device=DEVICE)
    for number, batch in enumerate(embedder.batches):
        kept[number] = embedder(batch)
    return embedder.agrees(kept)


def capture_good_used_before_the_next_replay():
    embedder = Embedder()
    right, on_host = [], []
    for batch, wanted in zip(embedder.batches, embedder.wanted, strict=True):
        out = embedder(batch)
        right.append(torch.allclose(out, wanted, rtol=1e-3, atol=1e-4))
        on_host.append(out.cpu())
    return all(right) and embedder.agrees([out.to(DEVICE) for out in on_host])
