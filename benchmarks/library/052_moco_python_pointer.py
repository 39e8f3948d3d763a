"""MoCo on RegNets: momentum encoder and a queue of keys that is filled round and round."""
# needs: torchvision
import copy

import torch
from torch.nn.functional import normalize
from torchvision.models import regnet_y_400mf


class MoCo(torch.nn.Module):
    def __init__(self, width=32, size=64):
        super().__init__()
        self.query = regnet_y_400mf(weights=None, num_classes=width)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", normalize(torch.randn(size, width), dim=1))
        self.pointer = 0

    def forward(self, first, second):
        q = normalize(self.query(first), dim=1)
        with torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters()):
                slow.lerp_(fast, 0.01)
            k = normalize(self.key(second), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().T], 1) / 0.2
        with torch.no_grad():
            self.queue[self.pointer:self.pointer + len(k)] = k
            self.pointer = (self.pointer + len(k)) % len(self.queue)
        return -logits.log_softmax(1)[:, 0].mean()


def make(device="cuda"):
    model = MoCo().to(device).train()
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.0005, momentum=0.9)

    def step(first, second):
        loss = model(first, second)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        images = torch.randn(8, 3, 32, 32, device=device)
        return images, images.flip(-1)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
