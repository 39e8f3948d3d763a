import torch
import torch.nn.functional as F


def dropout(x):
    return F.dropout(x, 0.5, training=True) + torch.randn_like(x)


class Own:
    def __init__(self):
        self.generator = torch.Generator("cuda").manual_seed(7)

    def step(self, x):
        return x + torch.rand(x.shape, device=x.device, generator=self.generator)
