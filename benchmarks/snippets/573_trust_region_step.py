"""Damped Gauss-Newton update whose damping follows the gain ratio."""
import torch


class Damping:
    def __init__(self, device, start=1e-2):
        self.value = torch.full((), start, device=device)

    def classify(self, ratio):
        if 0.25 < ratio < 0.75:
            return "keep"
        return "move"

    def adjust(self, ratio):
        if self.classify(ratio) == "move":
            factor = torch.where(ratio >= 0.75, 0.5, 2.0)
            self.value.mul_(factor)


def residual(theta, x, y):
    return torch.tanh(x @ theta) - y


def make(device="cuda"):
    torch.manual_seed(5)
    theta = torch.zeros(4, device=device)
    damping = Damping(device)

    @torch.no_grad()
    def update(x, y):
        r = residual(theta, x, y)
        jac = (1 - torch.tanh(x @ theta) ** 2).unsqueeze(1) * x
        grad = jac.T @ r
        scale = (jac * jac).sum(0) + damping.value
        delta = grad / scale
        before = (r * r).sum()
        after = (residual(theta - delta, x, y) ** 2).sum()
        damping.adjust((before - after) / (delta @ grad + 1e-9))
        theta.sub_(delta)
        return after

    def inputs():
        return torch.randn(20, 4, device=device), torch.rand(20, device=device)

    return {"fn": update, "inputs": inputs, "state": lambda: [theta, damping.value], "kind": "training_step"}
