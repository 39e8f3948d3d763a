"""Five mistakes in a capture that runs: each shows only as other numbers.

An input is rebound; the penalty's branch and the decay of the average come from a Python counter; the warm-up trains; the
result of a replay is the same tensor each time. Two graphs, one with the penalty, share the weights and the optimizer.
"""

import functools

import torch
from capturing import captured, optimizer_tensors
from program import EVERY, Trainer, batches


class Graphed(Trainer):
    def __init__(self, device, lr=2e-3):
        super().__init__(device, lr)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=lr, capturable=self.device.type == "cuda")
        self.inputs = [tensor.to(self.device) for tensor in batches(1, 0)[0]]
        self.share = torch.zeros((), device=self.device)
        changed = [*self.student.parameters(), *self.teacher.parameters()]
        made = lambda: optimizer_tensors(self.optimizer)
        self.graphs = []
        for penalty in (True, False):
            pool = self.graphs[0].pool if self.graphs and self.device.type == "cuda" else None
            self.graphs.append(captured(functools.partial(self.whole, penalty), self.device, changed, made, pool))

    def whole(self, penalty):
        loss = self.loss(*self.inputs)
        if penalty:
            loss = loss + 1e-3 * sum(weight.square().sum() for weight in self.student.parameters())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
                slow.lerp_(fast, self.share)
        return loss.detach()

    def step(self, view, other, clean):
        for static, tensor in zip(self.inputs, (view, other, clean)):
            static.copy_(tensor)
        self.share.fill_(1 - min(0.99, (1 + self.count) / (10 + self.count)))
        loss = self.graphs[self.count % EVERY != 0]()  # wrong: loss = self.graphs[0]()
        self.count += 1
        return loss


def build(device):
    return Graphed(device)
