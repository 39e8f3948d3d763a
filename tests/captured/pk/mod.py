from . import NAME
from .util import double


def step(x):
    assert NAME == "pk"
    return double(x) + 1
