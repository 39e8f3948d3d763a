"""A step that draws its batches from an iterator: of a loader, a generator, one made for each call, or one in a global."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(16, 16).cuda()
held = None


def step(batches, count):
    loss = torch.zeros((), device="cuda")
    for _ in range(count):
        (x,) = next(batches)
        loss = loss + model(x.cuda(non_blocking=True)).square().mean()
    return loss


def step_of_list(batches):
    return torch.stack([model(x).square().mean() for x in batches]).sum()


def step_of_global():
    (x,) = next(held)
    return model(x.cuda(non_blocking=True)).square().mean()


def generator(loader):
    for (x,) in loader:
        yield (x.cuda(non_blocking=True),)


def main():
    global held
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", default="loader", choices=["loader", "generator", "list", "global"])
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(400, 16)), batch_size=4, pin_memory=True)
    held = iter(loader)
    batches = generator(loader) if args.source == "generator" else held
    for _ in range(20):
        if args.source == "list":
            step_of_list(iter([torch.randn(4, 16, device="cuda") for _ in range(2)]))
        elif args.source == "global":
            step_of_global()
        else:
            step(batches, count=2)


if __name__ == "__main__":
    main()
