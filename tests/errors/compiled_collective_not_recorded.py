"""compiled-collective-not-recorded: an in-place all-reduce on an argument makes the compiler leave graphs out."""

# needs: gpus=2
import gc
import os

import torch
import torch.distributed as dist
from torch._dynamo.utils import counters


def _start() -> torch.Tensor:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(64, device=device)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    return x


def _reduce_argument(x: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(x)
    return x * 2


def _reduce_copy(x: torch.Tensor) -> torch.Tensor:
    total = x * 1
    dist.all_reduce(total)
    return total * 2


def fails() -> None:
    """The argument is written in place."""
    x = _start()
    fast = torch.compile(_reduce_argument, mode="reduce-overhead")
    for _ in range(4):
        fast(x.fill_(1.0).clone())
    torch.cuda.synchronize()
    dist.destroy_process_group()


def works() -> None:
    """The collective works on a tensor made inside."""
    x = _start()
    fast = torch.compile(_reduce_copy, mode="reduce-overhead")
    for value in (1.0, 2.0, 3.0, 5.0):
        assert fast(x.fill_(value)).eq(4 * value).all()
    assert counters["inductor"]["cudagraph_skips"] == 0
    torch.cuda.synchronize()
    torch.compiler.reset()
    gc.collect()
    dist.destroy_process_group()
