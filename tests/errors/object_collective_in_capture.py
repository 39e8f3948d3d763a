"""object-collective-in-capture: a Python object is pickled on the CPU and uploaded in the recorded step."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist


def _start() -> torch.Tensor:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    x = torch.ones(1024, device=device)
    dist.all_reduce(x.clone())
    torch.cuda.synchronize()
    return x


def fails() -> None:
    """The ranks exchange a dictionary of metrics inside the step."""
    x = _start()
    metrics: list[dict[str, int] | None] = [None, None]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
        dist.all_gather_object(metrics, {"rank": dist.get_rank()})


def works() -> None:
    """They exchange it beside the replay."""
    x = _start()
    metrics: list[dict[str, int] | None] = [None, None]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        dist.all_gather_object(metrics, {"rank": dist.get_rank()})
        torch.cuda.synchronize()
        assert x.eq(2 * value).all()
        assert metrics == [{"rank": 0}, {"rank": 1}]
    graph.reset()
    dist.destroy_process_group()
