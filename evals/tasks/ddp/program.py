"""Train with DistributedDataParallel and gradient accumulation: torchrun --nproc-per-node 2 program.py --steps 200.

Without torchrun it is a group of one rank.
"""

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, WIDTH, BLOCKS, CLASSES, BATCH, MICROBATCHES = 40, 96, 6, 8, 16, 4
WARMUP = 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def network():
    return nn.Sequential(nn.Linear(FEATURES, WIDTH), *(Block() for _ in range(BLOCKS)), nn.Linear(WIDTH, CLASSES))


def start_group(device):
    if not dist.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        if "RANK" in os.environ:
            dist.init_process_group(backend)
        else:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


class Trainer:
    def __init__(self, device, lr=3e-3):
        self.device = torch.device(device)
        start_group(self.device)
        self.lr = lr
        self.model = DistributedDataParallel(network().to(self.device))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.05)
        self.count = 0

    def step(self, x, labels):
        """Accumulate the gradients of MICROBATCHES; only the last backward pass communicates."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * min(1.0, (self.count + 1) / WARMUP)
        x, labels = x.to(self.device), labels.to(self.device)
        self.optimizer.zero_grad()
        total = torch.zeros((), device=self.device)
        for number, (part, target) in enumerate(zip(x.chunk(MICROBATCHES), labels.chunk(MICROBATCHES), strict=True)):
            last = number + 1 == MICROBATCHES
            with contextlib.nullcontext() if last else self.model.no_sync():
                loss = F.cross_entropy(self.model(part), target) / MICROBATCHES
                loss.backward()
            total += loss.detach()
        dist.all_reduce(total)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.count += 1
        return total / dist.get_world_size(), norm.detach()

    def state(self):
        return self.model.module.state_dict()


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(FEATURES, CLASSES, generator=generator)
    made = []
    for _ in range(count):
        x = torch.randn(BATCH * MICROBATCHES, FEATURES, generator=generator)
        made.append((x, (x @ weights).argmax(1)))
    return made


def build(device):
    return Trainer(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if args.device == "cuda":
        torch.cuda.set_device(rank)
    torch.manual_seed(0)
    trainer = Trainer(args.device, args.lr)
    for number, batch in enumerate(batches(args.steps, rank)):
        loss, norm = trainer.step(*batch)
        if number % 25 == 0 and rank == 0:
            print(f"step {number} loss {loss.item():.4f} norm {norm.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
