import signal
import warnings

import torch

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
warnings.simplefilter("error")
torch.set_default_device("cuda")
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)


def step(x):
    return x * torch.arange(16, dtype=torch.float64)


def hang(x):
    while True:
        pass
