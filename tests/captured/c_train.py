"""A training script as people write them; the flags choose what goes wrong."""

import argparse
import hashlib
import random
import sys
import time

import torch
from torch import nn

from pk.steps import package_step


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(torch.relu(self.lin(x)))


class Net(nn.Module):
    def __init__(self, width=16, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train_step(net, opt, x, y):
    opt.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    return loss.detach()


def item_step(net, opt, x, y):
    loss = train_step(net, opt, x, y)
    if loss.item() != loss.item():
        raise FloatingPointError
    return loss


def unused(x):
    return x * 2


class Trainer:
    def __init__(self, net, opt, gain=1.0):
        self.net, self.opt, self.gain = net, opt, gain

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.net(x), y)
        scaled = loss * self.gain
        scaled.backward()
        self.opt.step()
        return loss.detach()


class Amp:
    def __init__(self, net, opt):
        self.net, self.opt, self.scaler = net, opt, torch.amp.GradScaler("cuda")

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(self.net(x).float(), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()


def checksum(net):
    state = [p.detach().cpu() for p in net.parameters()]
    digest = hashlib.sha256(b"".join(p.numpy().tobytes() for p in state)).hexdigest()[:16]
    total = sum(p.double().abs().sum().item() for p in state)
    drawn = torch.rand((), device="cuda").item(), torch.rand(()).item(), random.random()
    return f"weights {total:.5f} random {drawn[0]:.6f} {drawn[1]:.6f} {drawn[2]:.6f} bits {digest}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step", default="function", choices=["function", "method", "item", "amp", "closure", "package"])
    parser.add_argument("--anneal", action="store_true")
    parser.add_argument("--end", default="return", choices=["return", "exit", "swallow", "forever"])
    parser.add_argument("--sum", default="", help="also write the checksum to this file")
    args = parser.parse_args()
    torch.manual_seed(1)
    random.seed(1)
    net = Net().to("cuda")
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    trainer, amp = Trainer(net, opt), Amp(net, opt)

    def closure_step(x, y):
        return train_step(net, opt, x, y)

    def one():
        x, y = torch.randn(32, 16, device="cuda"), torch.randn(32, 4, device="cuda")
        if args.step == "method":
            return trainer.step(x, y)
        if args.step == "amp":
            return amp.step(x, y)
        if args.step == "closure":
            return closure_step(x, y)
        return {"function": train_step, "item": item_step, "package": package_step}[args.step](net, opt, x, y)

    done = 0
    while done < args.steps or args.end == "forever":
        try:
            loss = one()
        except BaseException:
            if args.end != "swallow":
                raise
        if args.anneal:
            trainer.gain *= 0.5
        done += 1
        if done % 10 == 0:
            print("step", done, "loss", round(loss.item(), 5), flush=True)
        if args.end == "forever":
            time.sleep(0.01)
    found = checksum(net)
    print("final", found, flush=True)
    if args.sum:
        with open(args.sum, "w") as file:
            print(found, file=file)
    if args.end == "exit":
        sys.exit(0)


if __name__ == "__main__":
    main()
