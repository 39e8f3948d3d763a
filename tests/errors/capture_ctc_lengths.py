"""capture-ctc-lengths: CTC loss with its lengths on the CPU."""

import torch
from torch.nn import functional


def fails() -> None:
    """All other conditions of the cuDNN path hold, only the lengths are on the CPU."""
    log_probs = torch.randn(16, 4, 20, device="cuda").log_softmax(-1)
    targets = torch.randint(1, 20, (20,), dtype=torch.int32, device="cuda")
    frames, labels = torch.full((4,), 16, dtype=torch.int32), torch.full((4,), 5, dtype=torch.int32)
    functional.ctc_loss(log_probs, targets, frames.cuda(), labels.cuda())
    g = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(g):
        functional.ctc_loss(log_probs, targets, frames, labels)


def works() -> None:
    """The graph ends at the log-probabilities; the loss stays outside, since torch 2.11 copies its targets to the CPU."""
    logits = torch.randn(16, 4, 20, device="cuda")
    targets = torch.randint(1, 20, (20,), dtype=torch.int32, device="cuda")
    frames = torch.full((4,), 16, dtype=torch.int32, device="cuda")
    labels = torch.full((4,), 5, dtype=torch.int32, device="cuda")
    logits.log_softmax(-1)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        log_probs = logits.log_softmax(-1)
    for seed in (1, 2):
        torch.manual_seed(seed)
        logits.copy_(torch.randn(16, 4, 20, device="cuda"))
        g.replay()
        loss = functional.ctc_loss(log_probs, targets, frames, labels)
        eager = functional.ctc_loss(logits.log_softmax(-1), targets, frames, labels)
        assert torch.allclose(loss, eager, rtol=1e-3)
