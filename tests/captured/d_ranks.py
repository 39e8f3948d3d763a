"""A training on several ranks, as people write it; the flags choose how ranks communicate, and what goes wrong on rank 1."""

import argparse
import ctypes
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="nccl", choices=["nccl", "ddp", "ddp-default-stream", "fsdp"])
parser.add_argument(
    "--wrong",
    default="",
    choices=["", "item", "frozen", "hang", "import", "crash", "exit", "raise", "never", "seldom", "shapes", "random", "slow"],
)
parser.add_argument("--everywhere", action="store_true", help="on all ranks")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--end", default="destroy", choices=["destroy", "finally", "nothing"])
args = parser.parse_args()

RANK, LOCAL = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
HERE = args.everywhere or RANK == 1
CALLS = [0]

if args.wrong == "import" and HERE:
    import no_such_module  # noqa: F401


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()


def wrapped(net):
    if args.kind == "ddp-default-stream":
        return DistributedDataParallel(net, device_ids=[LOCAL])
    if args.kind == "ddp":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            net = DistributedDataParallel(net, device_ids=[LOCAL])
        torch.cuda.current_stream().wait_stream(side)
    if args.kind == "fsdp":
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            from torch.distributed._composable.fsdp import fully_shard
        for layer in net:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(net)
    return net


def odd(loss):
    """What rank 1 does within the step."""
    if args.wrong == "item" and loss.item() > 1e9:
        raise FloatingPointError
    if args.wrong == "frozen":
        CALLS[0] += 1
        loss = loss * (1.0 + 0.05 * CALLS[0])
    if args.wrong == "random":
        loss = loss * torch.rand((), device="cuda")
    if args.wrong == "slow":
        time.sleep(0.2)
    return loss


def step(net, opt, x, y):
    opt.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(net(x), y)
    if HERE:
        loss = odd(loss)
    loss.backward()
    if args.kind == "nccl":
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    opt.step()
    return loss.detach()


def train(net, opt):
    torch.manual_seed(100 + RANK)
    for number in range(args.steps):
        rows = 8 + 8 * (number % 2) if args.wrong == "shapes" and HERE else 8
        x, y = torch.randn(rows, 16, device="cuda"), torch.randn(rows, 4, device="cuda")
        if HERE and number == 5:
            if args.wrong == "hang":
                time.sleep(999)
            if args.wrong == "crash":
                ctypes.string_at(0)
            if args.wrong == "exit":
                os._exit(7)
            if args.wrong == "raise":
                raise ValueError("a bad batch")
        if args.wrong == "seldom" and HERE and number > 5:
            return
        if args.wrong == "never" and HERE:
            dist.barrier()
            continue
        step(net, opt, x, y)


def main():
    torch.cuda.set_device(LOCAL)
    dist.init_process_group("nccl", device_id=torch.device("cuda", LOCAL))
    try:
        net = wrapped(network())
        opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        train(net, opt)
        torch.cuda.synchronize()
    finally:
        if args.end == "finally":
            dist.destroy_process_group()
    if args.end == "destroy":
        dist.destroy_process_group()
    print("done", RANK, flush=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
