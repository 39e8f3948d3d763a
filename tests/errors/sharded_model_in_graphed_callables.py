"""sharded-model-in-graphed-callables: fully_shard hangs hooks on the module, which make_graphed_callables refuses."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def _start() -> tuple[nn.Sequential, torch.Tensor]:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(device)
    return net, torch.randn(16, 64, device=device)


def fails() -> None:
    """The whole model is sharded first."""
    net, x = _start()
    torch.cuda.make_graphed_callables(fully_shard(net), (x,))


def works() -> None:
    """A part without sharded parameters is recorded, the sharded part stays eager."""
    net, x = _start()
    part = torch.cuda.make_graphed_callables(net[0], (x.clone(),), num_warmup_iters=11)
    rest = net[1:]
    want = [rest(nn.functional.linear(scale * x, net[0].weight, net[0].bias)) for scale in (1.0, 3.0)]
    fully_shard(rest)
    for scale, expected in zip((1.0, 3.0), want, strict=True):
        torch.testing.assert_close(rest(part(scale * x)), expected)
    torch.cuda.synchronize()
    dist.destroy_process_group()
