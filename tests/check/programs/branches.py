"""Branches: decided ones are taken alone, the others are joined."""
import os
import sys

import torch

unknown = len(sys.argv)
#? number
unknown
if 1 > 2:
    a = 1
else:
    a = "two"
#? str two
a
if unknown > 2:
    b = 1
else:
    b = 2
#? int
b
if unknown > 2:
    c = 1
else:
    c = 1
#? int 1
c
if unknown:
    d = torch.zeros(2, device="cuda")
else:
    d = torch.zeros(2, 2, device="cuda")
#? float tensor on cuda
d
if unknown:
    e = torch.zeros(2)
else:
    e = torch.zeros(2, device="cuda")
#? float tensor, 1 dimension
e
f = None
if unknown:
    f = torch.zeros(2, device="cuda")
#? float tensor on cuda, 1 dimension or None
f
#? int 4
g = 4 if a == "two" else "five"
#? int
h = 4 if unknown else 5
#? str fallback
i = None or "fallback"
#? int 0
j = 0 and 5
match a:
    case "one":
        k = 1
    case "two":
        k = 2
    case _:
        k = 3
#? int 2
k
match unknown:
    case 1:
        m = 1
    case _:
        m = 2
#? int
m
match (1, 2):
    case (x, y):
        #? int
        x


def early(flag):
    if flag:
        return 1
    return "late"


#? int 1
early(True)
#? str late
early(False)
#? unknown
early(unknown)
try:
    n = 1
except ValueError:
    n = 2
# the body is taken to succeed
#? int 1
n
try:
    o = 1
finally:
    p = 2
#? int 2
p
