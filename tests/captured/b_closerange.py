import os

os.closerange(3, 1024)


def step(x):
    return x * 2
