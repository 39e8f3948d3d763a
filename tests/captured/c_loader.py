import argparse
import functools
import threading

import torch
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        return torch.full((16,), float(i)), i % 4


def logged(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner


@logged
def step(net, opt, x, y):
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x * 0.01), y)
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", default="fork")
    parser.add_argument("--thread", action="store_true")
    args = parser.parse_args()
    net = torch.nn.Linear(16, 4).to("cuda")
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    loader = DataLoader(Data(), 8, shuffle=True, num_workers=2, pin_memory=True, multiprocessing_context=args.context)

    def epoch():
        for x, y in loader:
            step(net, opt, x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True))

    if args.thread:
        worker = threading.Thread(target=epoch)
        worker.start()
        worker.join()
    else:
        epoch()
    print("final: an epoch")


if __name__ == "__main__":
    main()
