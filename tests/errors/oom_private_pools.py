"""oom-private-pools: eager code runs out of memory that a graph's private pool holds."""

import torch

_MIB = 2**20


def _limit(mebibytes: int) -> None:
    """Play a small GPU."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(mebibytes * _MIB / total)


def fails() -> None:
    """256 MiB of input, 512 MiB held by the graph, and an eager validation that needs 512 more."""
    _limit(900)
    torch.ones(8, device="cuda").mul(2).add(1).mean()
    x = torch.ones(64 * _MIB, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        train = (x * 2 + 1).mean()
    g.replay()
    validation = (x * 3 - 1).mean()
    torch.cuda.synchronize()
    del train, validation


def works() -> None:
    """Both phases are captured into one pool: the second reuses the blocks of the first."""
    _limit(900)
    torch.ones(8, device="cuda").mul(2).add(1).sub(1).mean()
    x = torch.ones(64 * _MIB, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first, pool=pool):
        train = (x * 2 + 1).mean()
    with torch.cuda.graph(second, pool=pool):
        validation = (x * 3 - 1).mean()
    for value in (1.0, 2.0):
        x.fill_(value)
        first.replay()
        assert train.item() == value * 2 + 1
        second.replay()
        assert validation.item() == value * 3 - 1
