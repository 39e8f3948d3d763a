"""compiled-output-kept: what a reduce-overhead function gave is kept over its next call, whose graph writes to the same memory."""

import torch
from torch import nn

DEVICE = "cuda"


class Embedder:
    """A compiled model with some batches; `wanted` holds what eager code gives."""

    def __init__(self):
        torch.manual_seed(0)
        model = nn.Linear(16, 8).to(DEVICE).requires_grad_(False)
        self.batches = [torch.randn(4, 16, device=DEVICE) for _ in range(4)]
        self.wanted = [model(batch) for batch in self.batches]
        self.fast = torch.compile(model, mode="reduce-overhead")

    def agrees(self, got):
        return all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(got, self.wanted, strict=True))


def capture_bad_list_of_outputs():
    embedder = Embedder()
    kept = []
    for batch in embedder.batches:
        kept.append(embedder.fast(batch))  # CG311
    return embedder.agrees(kept)


def capture_bad_detach_is_no_copy():
    embedder = Embedder()
    kept = {}
    for number, batch in enumerate(embedder.batches):
        kept[number] = embedder.fast(batch).detach()  # CG311
    return embedder.agrees(kept.values())


def capture_bad_name_over_the_next_call():
    embedder = Embedder()
    first, second, *_ = embedder.batches
    with torch.no_grad():
        for _ in range(3):
            one = embedder.fast(first)  # CG311
            two = embedder.fast(second)
            change = two - one
    return embedder.agrees([two - change, two, *embedder.wanted[2:]])


def capture_good_clones():
    embedder = Embedder()
    kept = []
    for batch in embedder.batches:
        kept.append(embedder.fast(batch).clone())
    return embedder.agrees(kept)


def capture_good_new_tensors():
    embedder = Embedder()
    first, second, *_ = embedder.batches
    with torch.no_grad():
        for _ in range(3):
            one = 1.0 * embedder.fast(first)
            two = 1.0 * embedder.fast(second)
            change = two - one
    return embedder.agrees([two - change, two, *embedder.wanted[2:]])


def capture_good_backward_still_to_come():
    torch.manual_seed(0)
    model = nn.Linear(16, 8).to(DEVICE)
    fast = torch.compile(model, mode="reduce-overhead")
    first, second = torch.randn(4, 16, device=DEVICE), torch.randn(4, 16, device=DEVICE)
    right = []
    for _ in range(4):
        one = fast(first)
        two = fast(second)
        loss = (two - one).sum()
        loss.backward()
        right.append(torch.allclose(loss, (model(second) - model(first)).sum(), rtol=1e-3, atol=1e-3))
    return all(right)
