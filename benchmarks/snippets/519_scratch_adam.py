"""Adam from scratch, applied to a linear probe."""
import math

import torch


class ScratchAdam(object):
    def __init__(self, params, lr=1e-2, b1=0.9, b2=0.999, eps=1e-8):
        self.params, self.lr, self.b1, self.b2, self.eps = params, lr, b1, b2, eps
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]
        self.t = 0

    def _step_size(self):
        return self.lr * math.sqrt(1 - self.b2 ** self.t) / (1 - self.b1 ** self.t)

    @torch.no_grad()
    def step(self, grads):
        self.t += 1
        size = self._step_size()
        for p, g, m, v in zip(self.params, grads, self.m, self.v):
            m.mul_(self.b1).add_(g, alpha=1 - self.b1)
            v.mul_(self.b2).addcmul_(g, g, value=1 - self.b2)
            p.addcdiv_(m, v.sqrt().add_(self.eps), value=-size)


def make(device="cuda"):
    torch.manual_seed(33)
    w = torch.zeros(10, 1, device=device, requires_grad=True)
    b = torch.zeros(1, device=device, requires_grad=True)
    adam = ScratchAdam([w, b])

    def probe(x, y):
        loss = torch.nn.functional.soft_margin_loss((x @ w + b).squeeze(1), y)
        adam.step(torch.autograd.grad(loss, adam.params))
        return loss.detach()

    def inputs():
        x = torch.randn(24, 10, device=device)
        return x, x[:, 0].sign()

    return {"fn": probe, "inputs": inputs, "state": lambda: [w, b, *adam.m, *adam.v], "kind": "training_step"}
