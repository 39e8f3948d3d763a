NAME = "café"


def step(x):
    return x
