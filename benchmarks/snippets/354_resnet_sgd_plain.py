"""Residual convolutional classifier trained with fixed momentum."""
import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(ch), nn.BatchNorm2d(ch)

    def forward(self, x):
        h = F.relu(self.na(self.a(x)))
        return F.relu(x + self.nb(self.b(h)))


class Net(nn.Module):
    def __init__(self, ch=12, depth=2, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.body = nn.ModuleList(Residual(ch) for _ in range(depth))
        self.head = nn.Linear(ch, classes)

    def forward(self, x):
        h = self.stem(x)
        taps = []
        for block in self.body:
            h = block(h)
            taps.append(h.mean(dim=(2, 3)))
        return self.head(sum(taps))


def make(device="cuda"):
    net = Net().to(device).train()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)

    def step(img, y):
        opt.zero_grad()
        target = F.one_hot(y, num_classes=5).float().mul(0.9).add(0.02)
        loss = -(target * net(img).log_softmax(-1)).sum(-1).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return torch.randn(8, 3, 16, 16, device=device), torch.randint(0, 5, (8,), device=device)

    def state():
        return [t for t in net.state_dict().values() if t.is_floating_point()]

    return {"fn": step, "inputs": inputs, "state": state, "kind": "training_step"}
