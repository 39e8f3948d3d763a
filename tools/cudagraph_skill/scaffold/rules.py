"""Options that clash: why, and the nearest options that work."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold.options import (
    ALWAYS_TRAIN,
    BY_HAND,
    MEGATRON,
    OPTIONS,
    PLAIN,
    SHAPES,
    WORKFLOWS,
    Options,
    spelled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Reasons that recommend.py gives too.
FP8_STATE = "FP8 layers keep scaling factors that a plain capture freezes; Transformer Engine's own capture updates them"
BOTH_DISTRIBUTE = "both of them distribute the gradients: FSDP2 does what DDP does, and shards"
NO_GRADIENTS = "there are no gradients to synchronize in inference: run one process for each GPU"
_ONE_SHAPE = "an inference program is built around one of `--buckets`, `--decode`, `--pool` and `--partial`"


class Rule(NamedTuple):
    """Refuse options for which `clash` is true, because of `reason`; `instead` changes them to the nearest that work."""

    clash: Callable[[Options], bool]
    reason: str
    instead: dict[str, Any]


def _shapes(o: Options) -> int:
    return sum(getattr(o, shape) for shape in SHAPES)


RULES = [
    Rule(
        lambda o: o.workflow in ALWAYS_TRAIN and not o.training,
        "this workflow is for training",
        {"training": True},
    ),
    Rule(
        lambda o: o.fp8 and o.workflow in (*PLAIN, "profile"),
        FP8_STATE,
        {"workflow": "transformer-engine", "training": True},
    ),
    Rule(
        lambda o: o.workflow in ALWAYS_TRAIN and o.amp == "fp16",
        "its layers run in bfloat16 (or FP8), which needs no loss scaling",
        {"amp": "bf16"},
    ),
    Rule(
        lambda o: o.workflow in ALWAYS_TRAIN and (o.ddp or o.fsdp),
        "Megatron has its own data parallelism, and with Transformer Engine the layers are graphed before they are wrapped",
        {"ddp": False, "fsdp": False},
    ),
    Rule(
        lambda o: o.workflow in ALWAYS_TRAIN and o.rng,
        "its own tracker registers the random states with the graphs",
        {"rng": False},
    ),
    Rule(
        lambda o: o.workflow in MEGATRON and bool(o.accumulate),
        "the number of microbatches is a setting of Megatron's schedule, and the program already sets it",
        {"accumulate": 0},
    ),
    Rule(
        lambda o: o.workflow in (*ALWAYS_TRAIN, "profile") and _shapes(o) > 0,
        "the program is built around whole steps of fixed shape",
        dict.fromkeys(SHAPES, False),
    ),
    Rule(
        lambda o: o.workflow == "profile" and bool(o.ddp or o.fsdp or o.rng or o.accumulate),
        "measure one process and one plain step first: whether kernel launches are the limit does not depend on it",
        {"ddp": False, "fsdp": False, "rng": False, "accumulate": 0},
    ),
    Rule(
        lambda o: o.ddp and o.fsdp,
        BOTH_DISTRIBUTE,
        {"ddp": False},
    ),
    Rule(
        lambda o: (o.ddp or o.fsdp) and not o.training,
        NO_GRADIENTS,
        {"ddp": False, "fsdp": False},
    ),
    Rule(lambda o: o.accumulate == 1, "a step of one microbatch is a plain step", {"accumulate": 0}),
    Rule(
        lambda o: bool(o.accumulate) and not o.training,
        "there are no gradients to accumulate in inference",
        {"accumulate": 0},
    ),
    Rule(
        lambda o: o.training and (o.buckets or o.decode or o.pool),
        "buckets, decoding and pools of graphs are for inference",
        {"training": False},
    ),
    Rule(
        lambda o: (o.pool or o.partial) and _shapes(o) > 1,
        _ONE_SHAPE,
        {"pool": False, "partial": False},
    ),
    Rule(
        lambda o: o.buckets and o.decode,
        _ONE_SHAPE,
        {"buckets": False},
    ),
    Rule(
        lambda o: o.training and o.partial and o.workflow in BY_HAND,
        "a backward pass through several hand-captured graphs needs a custom autograd function, which is what "
        "make_graphed_callables provides",
        {"workflow": "make-graphed-callables"},
    ),
    Rule(
        lambda o: o.partial and o.workflow == "reduce-overhead",
        "the compiler already splits the model at the parts that it cannot capture",
        {"partial": False},
    ),
    Rule(
        lambda o: o.pool and o.workflow not in BY_HAND,
        "only a capture by hand chooses its memory pool; the compiler and make_graphed_callables share one already",
        {"workflow": "manual"},
    ),
    Rule(
        lambda o: (o.buckets or o.decode) and o.workflow == "make-graphed-callables",
        "make_graphed_callables takes one shape, and tensors as the only arguments",
        {"workflow": "manual"},
    ),
    Rule(
        lambda o: o.rng and o.workflow in ("reduce-overhead", "make-graphed-callables"),
        "a separate generator must be registered before capture (torch <=2.13), and this workflow gives no access to the graph",
        {"workflow": "manual", "partial": False},
    ),
    Rule(
        lambda o: o.rng and (o.ddp or o.fsdp),
        "a separate generator needs a seed and a saved state per rank, which the program does not keep",
        {"rng": False},
    ),
    Rule(
        lambda o: o.rng and not (o.training or o.decode),
        "a plain forward pass draws no random numbers; `--training` and `--decode` do",
        {"rng": False},
    ),
    Rule(
        lambda o: o.fsdp and o.amp == "fp16",
        "with float16 an overflow in one shard must skip the step on all ranks, which is untested; bfloat16 needs no scaling",
        {"amp": "bf16"},
    ),
    Rule(
        lambda o: o.fsdp and o.workflow == "reduce-overhead",
        "FSDP2 gathers the weights again in each step, and the compiler records again when an address changes",
        {"workflow": "manual-over-compile"},
    ),
    Rule(
        lambda o: o.fsdp and o.workflow == "make-graphed-callables",
        "FSDP2 puts hooks on the modules, and make_graphed_callables refuses modules with hooks",
        {"workflow": "manual", "partial": False},
    ),
]


def broken(options: Options) -> Rule | None:
    """Return the first rule that refuses the options."""
    return next((rule for rule in RULES if rule.clash(options)), None)


def checked(options: Options) -> Options:
    """Return `options` if there is a program for them.

    Raises:
        SkillError: There is none; the message gives the reason and the nearest command that works.
    """
    if options.workflow not in WORKFLOWS:
        raise SkillError(f"skill scaffold: there is no workflow {options.workflow}; there are {', '.join(WORKFLOWS)}")
    rule = broken(options)
    if rule is None:
        return options
    raise SkillError(
        f"skill scaffold: `{spelled(options)}`: {rule.reason}; nearest: `skill scaffold {spelled(nearest(options))}`"
    )


def implied(options: Options) -> Options:
    """Return the options without `--pool` beside `--buckets`: the graphs of buckets share one memory pool anyway."""
    return options._replace(pool=False) if options.buckets else options


def divisible(options: Options) -> None:
    """Check that the program of these options can be written as a module and its checks.

    Raises:
        SkillError: It cannot; the message gives the reason and the nearest command that works.
    """
    if options.workflow in PLAIN:
        return
    if options.workflow == "profile":
        why = "it measures once, and nothing of it is kept"
        near = f"`skill scaffold {spelled(options._replace(workflow='manual-over-compile'))} --module`"
    else:
        why = "its model and its checks share the state of the library that captures it, so it is one file"
        near = "leave out `--module`"
    raise SkillError(f"skill scaffold: `{spelled(options)} --module`: {why}; nearest: {near}")


def nearest(options: Options) -> Options:
    """Apply the change of each rule that refuses the options until none does."""
    for _ in RULES:
        rule = broken(options)
        if rule is None:
            break
        options = options._replace(**rule.instead)
    return options


def offered() -> list[Options]:
    """Return every combination of tested option values that has a program."""
    combinations = itertools.product(WORKFLOWS, *(option.values for option in OPTIONS.values()))
    return [options for options in map(Options._make, combinations) if broken(options) is None]
