"""DDP is captured only if it was made on a side stream and warmed up eleven times; NCCL's watchdog runs beside the capture.

The first iterations rebuild DDP's buckets and read timings on the host. The warm-up of the learning rate is a Python number, and
the warm-up of the capture trains: the weights, and with them the optimizer's state, have to be put back.
"""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from capturing import captured, optimizer_tensors
from program import MICROBATCHES, WARMUP, Trainer, batches
from torch import nn


class Graphed(Trainer):
    def __init__(self, device, lr=3e-3):
        if torch.device(device).type == "cuda":
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                super().__init__(device, lr)
            torch.cuda.current_stream().wait_stream(side)
        else:
            super().__init__(device, lr)
        self.rate = torch.full((), lr, device=self.device)
        cuda = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.rate, weight_decay=0.05, capturable=cuda)
        self.x, self.labels = (tensor.to(self.device) for tensor in batches(1, 0)[0])
        changed = list(self.model.parameters())
        made = lambda: optimizer_tensors(self.optimizer)
        self.replay = captured(self.whole, self.device, changed, made, warmups=11)

    def whole(self):
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for number, (x, labels) in enumerate(zip(self.x.chunk(MICROBATCHES), self.labels.chunk(MICROBATCHES))):
            last = number + 1 == MICROBATCHES
            with contextlib.nullcontext() if last else self.model.no_sync():
                loss = F.cross_entropy(self.model(x), labels) / MICROBATCHES
                loss.backward()
            total += loss.detach()
        dist.all_reduce(total)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total / dist.get_world_size(), norm.detach()

    def step(self, x, labels):
        self.x.copy_(x)
        self.labels.copy_(labels)
        self.rate.fill_(self.lr * min(1.0, (self.count + 1) / WARMUP))  # wrong: pass
        self.count += 1
        return self.replay()


def build(device):
    return Graphed(device)
