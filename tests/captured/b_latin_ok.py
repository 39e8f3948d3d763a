# -*- coding: latin-1 -*-
NAME = "café"


def step(x):
    return x * len(NAME)
