import builtins

import torch

if hasattr(builtins, "was_here"):
    raise RuntimeError("this module may be imported only once in a process")
builtins.was_here = True
library = torch.library.Library("captured_once", "DEF")
library.define("scale(Tensor x) -> Tensor")


def _scale(x):
    return x * 4


library.impl("scale", _scale, "CompositeExplicitAutograd")


def step(x):
    return torch.ops.captured_once.scale(x)
