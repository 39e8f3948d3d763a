"""Quaternion pose chain that unpacks tensors the way tuples are unpacked."""
import math
import operator
from functools import reduce

import torch


def to_matrix(q):
    w, x, y, z = q / q.norm()
    row0 = torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)])
    row1 = torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)])
    row2 = torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])
    return torch.stack([row0, row1, row2])


def chain(joints):
    return reduce(operator.matmul, [to_matrix(q) for q in joints])


def confidence(scores):
    first, *rest = scores
    return math.prod(rest, start=first) ** (1.0 / len(scores))


def make(device="cuda"):
    tool = torch.zeros(3, device=device)
    tool[2] = 1.0

    def forward_kinematics(joints, scores):
        pose = chain(joints)
        total = sum(row @ tool for row in pose)
        gates = dict(zip("abcd", scores.unbind()))
        return pose @ tool, total * gates["a"], confidence(scores)

    def inputs():
        return torch.randn(4, 4, device=device), torch.rand(4, device=device)

    return {"fn": forward_kinematics, "inputs": inputs, "kind": "inference"}
