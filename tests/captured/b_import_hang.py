import time

time.sleep(1000)


def step(x):
    return x
