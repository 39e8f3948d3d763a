"""GradScaler decides on the host whether the optimizer steps: under capture that fails, or is frozen.

A fused optimizer takes the scale and the overflow flag as tensors and skips on the GPU. The warm-up overflows: scale and
growth count have to be put back with the weights, the running statistics and the momenta. `get_scale()` reads on the host.
"""

import torch
import torch.nn.functional as F
from capturing import captured, optimizer_tensors
from program import PRECISION, Trainer, batches
from torch import nn

LIMITS = {"least": 8}  # rounding to half precision soon turns a hit


class Graphed(Trainer):
    def __init__(self, device, lr=0.05, clip=5.0):
        super().__init__(device, lr, clip)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-4, fused=True
        )
        self.images, self.labels = (tensor.to(self.device) for tensor in batches(1, 0)[0])
        self.scaler.scale(torch.zeros((), device=self.device))  # makes the tensors of the scaler
        changed = [*self.model.parameters(), *self.model.buffers()]
        changed += [self.scaler._scale, self.scaler._growth_tracker]  # wrong: pass
        self.replay = captured(self.whole, self.device, changed, lambda: optimizer_tensors(self.optimizer))

    def whole(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, PRECISION, cache_enabled=False):
            logits = self.model(self.images)
            loss = F.cross_entropy(logits.float(), self.labels, label_smoothing=0.1)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        scale = self.scaler._scale.clone()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        hits = (logits.argmax(1) == self.labels).sum()
        return loss.detach(), scale, hits / len(self.labels)

    def step(self, images, labels):
        self.images.copy_(images)
        self.labels.copy_(labels)
        return self.replay()


def build(device):
    return Graphed(device)
