"""symmetric-memory-in-capture: the workspace that peers read cannot be made while the stream captures."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem


def _start() -> tuple[torch.device, str]:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    dist.all_reduce(torch.ones(1, device=device))
    torch.cuda.synchronize()
    return device, dist.group.WORLD.group_name


def fails() -> None:
    """The first request for a workspace stands in the recorded code."""
    _device, group = _start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        symm_mem.get_symm_mem_workspace(group, min_size=1 << 20)


def works() -> None:
    """Buffer and rendezvous come first; the kernel on them is recorded."""
    device, group = _start()
    buffer = symm_mem.empty(1024, dtype=torch.float32, device=device)
    symm_mem.rendezvous(buffer, group)
    torch.ops.symm_mem.one_shot_all_reduce(buffer.fill_(1.0), "sum", group)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", group)
    for value in (1.0, 5.0):
        buffer.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert out.eq(2 * value).all()
    graph.reset()
    dist.barrier()
    dist.destroy_process_group()
