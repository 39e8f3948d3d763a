"""The learning rate is a Python number that the scheduler changes: a graph keeps that of the capture.

AdamW needs `capturable=True` and a rate that is a tensor, one for each group, filled before each replay. The warm-up trains:
weights and the optimizer's state have to be put back. The loss of a replay is overwritten by the next one.
"""

import torch
import torch.nn.functional as F
from capturing import captured, optimizer_tensors
from program import Trainer, batches, schedule
from torch import nn


class Graphed(Trainer):
    def __init__(self, device, lr=1e-3, clip=1.0):
        super().__init__(device, lr, clip)
        self.base = [lr, 2 * lr]
        groups = self.optimizer.param_groups
        self.rates = [torch.full((), rate * schedule(0), device=self.device) for rate in self.base]
        kept = [{"params": g["params"], "weight_decay": g["weight_decay"], "lr": r} for g, r in zip(groups, self.rates)]
        self.optimizer = torch.optim.AdamW(kept, betas=(0.9, 0.95), capturable=self.device.type == "cuda")
        self.count = 0
        self.tokens, self.targets = (tensor.to(self.device) for tensor in batches(1, 0)[0])
        made = lambda: optimizer_tensors(self.optimizer)
        self.replay = captured(self.whole, self.device, list(self.model.parameters()), made)

    def whole(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(self.tokens).flatten(0, 1), self.targets.flatten())
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss.detach(), norm.detach()

    def step(self, tokens, targets):
        self.tokens.copy_(tokens)
        self.targets.copy_(targets)
        for rate, base in zip(self.rates, self.base):
            rate.fill_(base * schedule(self.count))  # wrong: pass
        self.count += 1
        return self.replay()


def build(device):
    return Graphed(device)
