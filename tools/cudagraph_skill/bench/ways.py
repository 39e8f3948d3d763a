"""The workloads, the ways and the published numbers."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import shortened

PUBLISHED_IN = "Lei Mao, PyTorch CUDA Graph Capture, 2026-01-12 (RTX 5080)"
STEPS = 7  # profiled steps of which Self CPU time is the total, there and here


class Way(NamedTuple):
    """A way by its name in guest/ways.py, what it is, and its published Self CPU times, in seconds."""

    name: str
    label: str
    published: tuple[float, ...] = ()
    against: float = 0.0  # the published one without a graph, of the same program


EAGER, MANUAL, MODULES, PARTIAL, COMPILED = "eager", "manual", "make_graphed_callables", "partial", "manual over compile"
UNTRAINED = "partial as published"  # its sample comes from under no_grad: what lies before the sub-module gets no gradients
WAYS = (
    Way(EAGER, "no graph", (24.142e-3, 22.641e-3)),
    Way(MANUAL, "full step, by hand", (8.690e-3,), 24.142e-3),
    Way(MODULES, "model, make_graphed_callables", (11.450e-3,), 22.641e-3),
    Way(PARTIAL, "sub-module, make_graphed_callables"),
    Way(UNTRAINED, "sub-module as published (first block untrained)", (19.842e-3,), 22.641e-3),
    Way(COMPILED, "full step, by hand over compile"),
)
BY_NAME = {way.name: way for way in WAYS}


class Workload(NamedTuple):
    """A workload by its name in guest/workloads.py, what it is, and whether the blog measured it."""

    name: str
    said: str
    published: bool = False


WORKLOADS = (
    Workload("mlp", "the blog's training step: MLP 4096-2048-1024-512-256 with dropout, batch 640, MSE, SGD", True),
    Workload("mlp-tf32", "the same with matrix products in TF32, as in the published run by the names of its kernels", True),
    Workload(
        "transformer", "a training step of a small language model: 6 layers of 512, 4 x 128 tokens, bf16, clipping, AdamW"
    ),
    Workload("decode", "one token of a decoder: 12 layers of 768, bf16, static KV cache of 1024"),
    Workload(
        "convolutions", "a training step of a residual network: 32 images of 64 x 64, bf16, batch norm, SGD with momentum"
    ),
)
WORKLOAD = {workload.name: workload for workload in WORKLOADS}


def known(name: str) -> str:
    """Return the name of a workload.

    Raises:
        SkillError: there is none of that name; the message gives the nearest.
    """
    if name in WORKLOAD:
        return name
    near = difflib.get_close_matches(name, WORKLOAD, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(WORKLOAD)}"
    raise SkillError(f"skill bench: there is no workload {shortened(name)}; {hint}")


def of_workload(name: str) -> list[Way]:
    """Return the ways of a workload; one is only of the blog's."""
    return [way for way in WAYS if way.name != UNTRAINED or WORKLOAD[name].published]


def table(name: str) -> list[str]:
    """Return the names of the ways that the blog's table has, or their like in another workload."""
    return [EAGER, MANUAL, MODULES, UNTRAINED if WORKLOAD[name].published else PARTIAL]
