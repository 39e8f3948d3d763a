"""hang-during-replay: a recorded kernel waits for a flag that the host set in the eager code and sets no more."""

import time

import torch
import triton
import triton.language as tl


@triton.jit
def _wait_for(flag):  # type: ignore[no-untyped-def]
    """Spins until the flag is 1, and takes it back to 0."""
    while tl.atomic_cas(flag, 1, 0) != 1:
        pass


def _record() -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor, torch.Tensor, torch.cuda.Stream]:
    flag = torch.ones(1, dtype=torch.int32, device="cuda")
    x = torch.ones(4, device="cuda")
    producer = torch.cuda.Stream()
    torch.cuda.synchronize()
    _wait_for[(1,)](flag)
    with torch.cuda.stream(producer):
        flag.fill_(0)  # loads the kernel of fill_, which could not be loaded while another kernel spins
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _wait_for[(1,)](flag)
        out = x * 2
    return graph, flag, x, out, producer


def fails() -> None:
    """The replay is not over after three seconds, and would never be."""
    graph, flag, _x, _out, producer = _record()
    over = torch.cuda.Event()
    graph.replay()
    over.record()
    time.sleep(3)
    assert not over.query()
    with torch.cuda.stream(producer):
        flag.fill_(1)  # so that this program ends
    over.synchronize()


def works() -> None:
    """The host's part of the handshake stands beside every replay."""
    graph, flag, x, out, producer = _record()
    for value in (1.0, 2.0):
        x.fill_(value)
        with torch.cuda.stream(producer):
            flag.fill_(1)
        graph.replay()
        torch.cuda.synchronize()
        assert out.eq(2 * value).all()
