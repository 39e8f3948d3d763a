"""Natural-gradient flavoured descent on the flattened parameter vector."""
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class FlatDescent:
    def __init__(self, net, lr=0.2, damping=0.1):
        self.params = list(net.parameters())
        self.lr = lr
        self.damping = damping

    @torch.no_grad()
    def move(self, grads):
        theta = parameters_to_vector(self.params)
        g = parameters_to_vector([g.contiguous() for g in grads])
        theta = theta - self.lr * g / (g.norm() + self.damping)
        vector_to_parameters(theta, self.params)


def make(device="cuda"):
    torch.manual_seed(31)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    descent = FlatDescent(net)

    def step(x, y):
        loss = nn.functional.mse_loss(net(x), y)
        grads = torch.autograd.grad(loss, descent.params)
        descent.move(grads)
        return loss.detach()

    def inputs():
        x = torch.randn(16, 4, device=device)
        return x, x.prod(1, keepdim=True)

    return {"fn": step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
