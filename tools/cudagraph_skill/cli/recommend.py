"""`skill recommend`: choose a workflow from facts about a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.cli import next_step
from cudagraph_skill.cli.arguments import Parser, add_command, add_kind, percent

if TYPE_CHECKING:
    import argparse


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Declare the arguments of `skill recommend`."""
    new = add_command(
        commands,
        "recommend",
        "say which workflow fits, why, and the command that writes its program",
        "example: skill recommend                             (which questions decide)\n"
        "         skill recommend --training --host-reads\n"
        "         skill recommend --framework megatron --moe",
        "exit codes: 0 a recommendation, 2 the command was not understood, or answers contradict each other",
    )
    new.add_argument("--framework", metavar="NAME", help="pytorch, transformer-engine, megatron or megatron-bridge")
    add_kind(new)
    new.add_argument("--shapes", metavar="KIND", help="static, dynamic, or buckets (a few sizes)")
    new.add_argument("--busy", type=percent, metavar="PERCENT", help="how much of a step the GPU is busy, measured")
    for option, text in (
        ("--fp8", "layers compute in FP8"),
        ("--pp", "the model is a pipeline over several GPUs"),
        ("--moe", "tokens are sent to experts"),
        ("--decode", "the program generates token by token with a KV cache"),
        ("--host-reads", "part of the step reads values on the host, or can otherwise not be captured"),
        ("--control", "capture the optimizer step too, with a capture written by hand"),
        ("--no-compile", "do not use torch.compile"),
        ("--ddp", "several GPUs with DistributedDataParallel"),
        ("--fsdp", "several GPUs with FSDP2"),
    ):
        new.add_argument(option, action="store_true", help=text)
    new.add_argument("--amp", metavar="DTYPE", help="mixed precision, bf16 or fp16")
    new.add_argument("--json", action="store_true", help="print one line of JSON")
    new.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the workflow that fits the answers."""
    from cudagraph_skill.scaffold import output as scaffolding
    from cudagraph_skill.scaffold import recommend
    from cudagraph_skill.scaffold.options import Options, spelled

    kind = True if args.training else False if args.inference else None
    given = {name: getattr(args, name) for name in recommend.Answers._fields if getattr(args, name) is not None}
    advice = recommend.recommend(recommend.Answers(**{**given, "training": kind}))

    def spell(options: Options) -> str:
        return f"{next_step.program('scaffold')} {spelled(options)}"

    if args.json:
        print(scaffolding.as_json(scaffolding.recommendation_data(advice, spell)))
    else:
        print(scaffolding.recommendation(advice, spell))
    return 0
