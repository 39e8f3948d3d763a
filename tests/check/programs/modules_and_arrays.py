"""Imports, numpy, errors."""
import math
import os.path
import numpy as np
import torch
from torch import nn as layers

#? torch
torch
#? torch.nn
layers
#? torch.relu
torch.relu
#? torch.nn.Linear
layers.Linear
#? float 3.141592653589793
math.pi
#? float 3.0
math.sqrt(9)
#? int 2
math.floor(2.5)
#? numpy array
array = np.zeros((2, 3))
#? numpy array
array + 1
#? numpy array
np.sum(array, axis=0)
#? tensor on cpu
torch.from_numpy(array)
#? numpy array, 1 dimension
torch.zeros(2).numpy()
#? builtins.len
len


with open("file") as file:
    #? instance of builtins.open
    file
#? unknown
not_defined
#? unknown
some.thing
