"""One model that a program calls in several modes, compiled and not; and functions of the program that work on the host."""

import math
import time

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))

    def forward(self, x):
        return self.body(x)

    def scaled(self, x):
        return self.body(x) * 2


net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(64, 16)
calls = [0]


def rate(number):
    return 0.1 * (1 + math.cos(number / 10)) / 2


def moved(number):
    return data[number % 8 : number % 8 + 8].cuda()


def drawn():
    picked = torch.randint(64, (8,))
    return torch.stack([data[each] for each in picked]).pin_memory().cuda(non_blocking=True)


def epoch():
    total = 0.0
    for number in range(4):
        time.sleep(0.3)
        optimizer.zero_grad()
        loss = net(moved(number)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def waiting():
    """Synchronise and read the clock, each in a function of its own, as trainers do."""
    start = now()
    loss = net(data[:8].to("cuda", non_blocking=True)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss, now() - start


def now():
    torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", default="", choices=["", "module", "method", "function"])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    model, scaled = net, net.scaled
    if args.compile == "module":
        model = torch.compile(net, backend="aot_eager", fullgraph=True)
    if args.compile == "method":
        scaled = torch.compile(net.scaled, backend="aot_eager", fullgraph=True)
    for number in range(40):
        if args.only:
            globals()[args.only]()
            continue
        optimizer.param_groups[0]["lr"] = rate(number)
        net.train()
        model(moved(number)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        net.eval()
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, enabled=number % 2 == 0):
            model(drawn())
            scaled(moved(number))
