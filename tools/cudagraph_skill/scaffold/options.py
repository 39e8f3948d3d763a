"""The workflows and options of `skill scaffold`.

The command's arguments, the MCP tool's arguments, the listing, the receipts to run and the tests are made from these tables.
"""

from typing import Annotated, Any, NamedTuple, get_type_hints


class Workflow(NamedTuple):
    """A workflow of SKILL.md: its number there and a one-line summary."""

    number: int
    summary: str


WORKFLOWS = {
    "profile": Workflow(1, "measure whether a graph would pay, predict the gain, and check the prediction"),
    "reduce-overhead": Workflow(2, "let torch.compile capture the model; graph breaks are allowed"),
    "make-graphed-callables": Workflow(3, "graph the model, forward and backward; optimizer and loss stay eager"),
    "transformer-engine": Workflow(4, "graph FP8 layers of Transformer Engine"),
    "mcore-per-layer": Workflow(5, "Megatron-Core: a graph for each layer"),
    "mcore-full-iteration": Workflow(6, "Megatron-Core: one graph for forward and backward of an iteration"),
    "manual": Workflow(7, "capture by hand: full control, the optimizer included"),
    "manual-over-compile": Workflow(8, "capture a compiled model by hand: the best measured speed"),
}
BY_HAND = ("manual", "manual-over-compile")
MEGATRON = ("mcore-per-layer", "mcore-full-iteration")
PLAIN = ("reduce-overhead", "make-graphed-callables", *BY_HAND)  # workflows of PyTorch alone
ALWAYS_TRAIN = ("transformer-engine", *MEGATRON)
SHAPES = ("buckets", "decode", "pool", "partial")  # an inference program is built around at most one of them


class Option(NamedTuple):
    """The help text of an option and the values that are tested.

    The first value is the default; of a number, the second one stands for the option without a value.
    """

    help: str
    values: tuple[Any, ...] = (False, True)


class Options(NamedTuple):
    """The options of one program. Without `training` the program runs inference; `accumulate` counts microbatches."""

    workflow: str
    training: Annotated[bool, Option("train: forward, backward and optimizer (default: inference)")] = False
    amp: Annotated[str, Option("mixed precision, bf16 or fp16", ("", "bf16", "fp16"))] = ""
    accumulate: Annotated[int, Option("accumulate the gradients of N microbatches in each step", (0, 4))] = 0
    ddp: Annotated[bool, Option("several GPUs with DistributedDataParallel")] = False
    fsdp: Annotated[bool, Option("several GPUs with FSDP2")] = False
    rng: Annotated[bool, Option("random numbers from a separate torch.Generator")] = False
    partial: Annotated[bool, Option("graph the static parts around one that cannot be captured")] = False
    buckets: Annotated[bool, Option("inputs of several sizes, padded to the next: a graph for each size, in one pool")] = False
    decode: Annotated[bool, Option("generate token by token with a KV cache")] = False
    pool: Annotated[bool, Option("several graphs that share one memory pool (those of buckets do)")] = False
    fp8: Annotated[bool, Option("layers in FP8")] = False


OPTIONS: dict[str, Option] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Options, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}


def spelled(options: Options) -> str:
    """Return the arguments of `skill scaffold` that select these options."""
    words = [f"--workflow {options.workflow}"]
    for name, value in options._asdict().items():
        if name != "workflow" and value:
            words.append(f"--{name}" if value is True else f"--{name} {value}")
    return " ".join(words)
