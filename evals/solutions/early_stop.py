"""The decisions need numbers on the host, and validation runs in another mode than training.

One graph trains and one validates; between them the host reads the validation loss once a check. The plateau schedule lowers
a rate that the graph has to read from a tensor. Batch norm's running statistics and its count of batches change in the
warm-up. The next fit begins with fresh weights and a fresh optimizer, which have to be put into the captured tensors.
"""

import torch
import torch.nn.functional as F
from capturing import captured, optimizer_tensors
from program import EVERY, Fit, batches
from torch import nn


LIMITS = {"steps": 48, "least": 48}


class Graphed(Fit):
    def __init__(self, device, lr=1e-2, patience=2):
        self.graphed = None
        super().__init__(device, lr, patience)
        self.rate = torch.full((), lr, device=self.device)
        self.graphed = torch.optim.RMSprop(
            self.model.parameters(), lr=self.rate, momentum=0.5, capturable=self.device.type == "cuda"
        )
        self.x, self.y = (tensor.to(self.device) for tensor in batches(1, 0)[0])
        changed = [*self.model.parameters(), *self.model.buffers()]
        self.train = captured(self.whole, self.device, changed, lambda: optimizer_tensors(self.graphed))
        self.validation = captured(super().validate, self.device, [])

    def restart(self):
        super().restart()  # its optimizer only holds the rate of the schedule
        if self.graphed:
            torch._foreach_zero_(optimizer_tensors(self.graphed))

    def whole(self):
        self.graphed.zero_grad(set_to_none=True)
        loss = F.smooth_l1_loss(self.model(self.x), self.y)
        loss.backward()
        nn.utils.clip_grad_value_(self.model.parameters(), 0.5)
        self.graphed.step()
        return loss.detach()

    def validate(self):
        return self.validation().cpu()  # the one number that the host needs

    def step(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        loss = self.train()
        self.count += 1
        best = self.best
        if self.count % EVERY == 0:
            self.check()
            self.rate.fill_(self.optimizer.param_groups[0]["lr"])  # wrong: pass
        return loss, best, self.fits


def build(device):
    return Graphed(device)
