import sys

sys.exit(0)


def step(x):
    return x
