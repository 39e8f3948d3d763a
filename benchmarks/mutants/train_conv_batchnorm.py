"""Image classifier with batch normalisation, mixup, fused SGD and averaged weights."""
import torch
import torch.nn.functional as F
from torch import nn


def conv_block(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Net(nn.Module):
    def __init__(self, classes=10, ch=16):
        super().__init__()
        self.features = nn.Sequential(conv_block(3, ch), conv_block(ch, ch, 2), conv_block(ch, 2 * ch, 2))
        self.head = nn.Linear(2 * ch, classes)

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))


class Experiment:
    def __init__(self, device):
        self.device = device
        self.net = Net().to(device).train()
        self.norms = [m for m in self.net.modules() if isinstance(m, nn.BatchNorm2d)]
        self.weights = list(self.net.parameters())
        self.averaged = [w.detach().clone() for w in self.weights]
        self.opt = torch.optim.SGD(self.weights, lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True, fused=True)

    def mix(self, image, label):
        lam = torch.rand((), device=image.device)
        mixed = torch.lerp(image.flip(0), image, lam)
        return mixed, (label, lam), (label.flip(0), 1 - lam)

    def begin(self):
        self.opt.zero_grad(set_to_none=True)

    def criterion(self, image, label):
        mixed, *targets = self.mix(image, label)
        logits = self.net(mixed)
        return sum(share * F.cross_entropy(logits, target) for target, share in targets)

    @torch.no_grad()
    def average(self):
        torch._foreach_lerp_(self.averaged, self.weights, 0.2)

    def __call__(self, image, label):
        self.begin()
        loss = self.criterion(image, label)
        loss.backward()
        self.opt.step()
        self.average()
        return loss.detach()

    def state(self):
        return [*self.weights, *self.averaged, *(t for bn in self.norms for t in (bn.running_mean, bn.running_var))]


def make(device="cuda"):
    run = Experiment(device)

    def inputs():
        return torch.randn(16, 3, 16, 16, device=device), torch.randint(0, 10, (16,), device=device)

    return {"fn": run, "inputs": inputs, "state": run.state, "kind": "training_step", "warmup": 3}
