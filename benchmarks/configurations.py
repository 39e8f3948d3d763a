"""Compare `skill config` with the packages themselves: random configurations, one process for each release.

    python benchmarks/configurations.py --python PYTHON --core 0.16.1=FOLDER [--core …] [--count 2000] [--seed 1] [--save]

FOLDER holds the `megatron` package of a release as its repository tag has it (with megatron/training), PYTHON has torch and
what that imports; no GPU is needed. For each configuration the package's own answer (TransformerConfig, or the parser and
`validate_args`) is compared with ours: both refuse it, or both take it, and a refusal is for the same reason. What differs is
printed; the counts go to benchmarks/evidence/configurations.json with --save.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cudagraph_skill.config import examine

_EVIDENCE = Path(__file__).parent / "evidence" / "configurations.json"

# Runs in the interpreter that has the release; one JSON line in, one out.
_ORACLE = """
import contextlib, io, json, os, sys, types, typing, warnings
warnings.simplefilter("ignore")
if not hasattr(typing, "override"):
    import typing_extensions
    typing.override = typing_extensions.override
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.training import arguments
import torch

def keywords(given, variables):
    TransformerConfig(num_layers=4, hidden_size=64, num_attention_heads=4, **given)

def flags(words, variables):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    build = getattr(arguments, "add_megatron_args", None) or arguments.add_megatron_arguments
    parsed = build(parser).parse_args(words)
    parsed.rank, parsed.world_size = 1, int(os.environ.get("WORLD_SIZE", "1"))
    arguments.validate_args(parsed)
    arguments.core_transformer_config_from_args(parsed)

import argparse
for line in sys.stdin:
    case = json.loads(line)
    os.environ.update(case["variables"])
    says = ""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as error:
        try:
            (keywords if case["form"] == "keywords" else flags)(case["given"], case["variables"])
        except SystemExit:
            says = error.getvalue().strip().splitlines()[-1]
        except Exception as failure:
            says = type(failure).__name__ + ": " + " ".join(str(failure).split())
    for name in case["variables"]:
        os.environ.pop(name)
    print(json.dumps(says), flush=True)
"""

# What a refusal says, by the constraint that is to find it. One that is not here is about something else than graphs.
SAID = {
    r"unrecognized arguments|unexpected keyword argument": "option-not-in-release",
    r"enable_cuda_graph and external_cuda_graph cannot|external-cuda-graph cannot be enabled": "old-switches-together",
    r"Do not use (--)?enable.cuda.graph": "old-switch-with-impl",
    r"Invalid cuda graph implementation|argument --cuda-graph-impl: invalid choice": "graph-impl-unknown",
    r"KeyError: '|argument --cuda-graph-(scope|modules): invalid": "graph-module-unknown",
    r"cuda_graph_(scope|modules).*must be (a )?(list|string)": "graph-module-unknown",
    r"full scope cannot be used": "full-scope-with-modules",
    r"cannot be (set|used) together": "scope-and-modules",
    r"To use full iteration cuda graph": "whole-iteration-needs-local",
    r"='full_iteration(_inference)?' cannot be combined with cuda_graph_impl|multiple deprecated": "old-scope-value-with-impl",
    r"cannot be combined with inference_cuda_graph_scope": "old-scope-value-with-inference-scope",
    r"Invalid inference CUDA graph scope": "inference-scope-with-impl",
    r"must be empty when": "whole-iteration-with-modules",
    r"no-check-for-nan": "nan-check-in-whole-iteration",
    r"expandable_segments": "expandable-segments",
    r"not supported with CPU offloading": "cpu-offloading",
    r"with activation recomputation|must not be full|attn cuda graph is not supported": "recompute-any",
    r"full recompute is only": "full-recompute",
    r"moe recompute is not": "moe-recompute-over-router",
    r"attention dropout is not": "attention-dropout-recomputed",
    r"hidden dropout is not": "hidden-dropout-recomputed",
    r"moe_input_jitter_eps is not": "jitter-recomputed",
    r"both moe and moe_router": "moe-and-moe-router",
    r"only supported with moe_router": "moe-preprocess-without-router",
    r"only supported for MoE": "moe-module-in-dense-model",
    r"only supported for dense": "mlp-without-dense-layer",
    r"drop-padding": "moe-without-drop-and-pad",
    r"DtoH": "moe-preprocess-synchronizes",
    r"scope on moe and mlp": "expert-overlap",
    r"must be enabled when enabling delay_wgrad|comm is required for delay_wgrad_compute": "delayed-wgrad-without-overlap",
    r"with partial cuda graph": "delayed-wgrad-engine",
    r"requires TE version >= 2.12": "delayed-wgrad-in-graph-engine",
    r"requires gradient_accumulation_fusion": "delayed-wgrad-without-fusion",
    r"attn bias|does not support attention bias": "delayed-wgrad-with-bias",
    r"offloading.*(only supported|only supports|whole-layer)": "activation-offload-impl",
    r"Token-drop": "activation-offload-moe",
    r"cross entropy loss fusion is disabled": "fused-cross-entropy-refused",
    r"warmup_steps must be greater": "activation-offload-warmup",
    r"max_inflight_offloads must": "activation-offload-bound",
    r"moe-pad-experts": "experts-unpadded-for-inference",
    r"num_cuda_graphs should": "number-of-inference-graphs",
    r"microbatched inference": "microbatched-pipeline-inference",
    r"fp8.*(full_iteration|block)|fp8-recipe=mxfp8": "fp8-inference-block",
    r"no CUDA graphs are being built": "rl-graphs-without-graphs",
    r"requires --rl-persist|incompatible with UVM|Cannot recapture": "rl-cache-moves",
    r"enable_cuda_graph'|Hybrid context": "hybrid-context-parallel",
    r"RNG tracker is required for cudagraphs": "bridge-rng-tracker",
    r"check_for_nan_in_loss must be disabled": "bridge-nan-check",
    r"only for full-iteration CUDA graphs": "bridge-local-per-layer",
    r"requires dataset pad_to_max_length": "bridge-packing-unpadded",
    r"Packed attention CUDA graphs": "bridge-packed-attention-unpadded",
    r"CUDA graph accepts only Tensor inputs": "bridge-packed-attention-captured",
}
# Raised when layers or graphs are made, which needs a GPU.
_RUN_TIME = {
    "variable-sequence-lengths",
    "fused-cross-entropy-engine",
    "expandable-segments",
} | {
    "expert-overlap-whole-layer",
    "activation-offload-in-graph-engine",
    "padded-experts-with-inference-layers",
    "bridge-packed-attention-captured",
    "rl-offload-keeps-graphs",
}
_RUN_TIME_BEFORE_0_16 = {"whole-iteration-needs-local", "graph-module-unknown", "old-switches-together"}
_MODULES = "attn mlp moe moe_router moe_preprocess mamba full full_iteration full_iteration_inference core".split()


def _maybe(dice: random.Random, share: float, *values: Any) -> Any:
    return dice.choice(values) if dice.random() < share else None


def keywords(dice: random.Random, core: tuple[int, ...]) -> dict[str, Any]:
    """Return random arguments of TransformerConfig, mostly such as somebody might write."""
    modules = (
        dice.sample(_MODULES[:6], dice.randint(1, 3)) if dice.random() < 0.8 else dice.sample(_MODULES, dice.randint(1, 2))
    )
    scope: Any = (
        modules if core >= (0, 16) else modules[0] if dice.random() < 0.3 else dice.choice(["full", "attn", "full_iteration"])
    )
    if core >= (0, 16) and dice.random() < 0.2:
        scope = ",".join(modules)
    overlap = dice.random() < 0.15
    given = {
        "enable_cuda_graph": _maybe(dice, 0.5 if core < (0, 15) else 0.08, True),
        "external_cuda_graph": _maybe(dice, 0.4 if core < (0, 15) else 0.08, True),
        "cuda_graph_impl": _maybe(
            dice, 0.85 if core >= (0, 15) else 0.03, "local", "transformer_engine", "full_iteration", "none", "te"
        )
        if dice.random() < 0.3
        else _maybe(dice, 1 if core >= (0, 15) else 0, "local", "transformer_engine", "transformer_engine"),
        "cuda_graph_scope": scope if dice.random() < (0.6 if core < (0, 18) else 0.3) else None,
        "cuda_graph_modules": modules if dice.random() < (0.5 if core >= (0, 18) else 0.03) else None,
        "inference_cuda_graph_scope": _maybe(dice, 0.15 if core >= (0, 18) else 0.02, "none", "layer", "block"),
        "num_moe_experts": _maybe(dice, 0.7, 8),
        "moe_token_dispatcher_type": _maybe(dice, 0.6, "alltoall", "allgather"),
        "moe_layer_freq": _maybe(dice, 0.3, [0, 1, 1, 1], [1, 1, 1, 1], 2),
        "moe_expert_capacity_factor": (capacity := _maybe(dice, 0.3, 1.0)),
        "moe_pad_expert_input_to_capacity": _maybe(dice, 0.7, True) if capacity else None,
        "moe_router_padding_for_fp8": _maybe(dice, 0.1, True),
        "cpu_offloading": (offloaded := _maybe(dice, 0.07, True)),
        "cpu_offloading_num_layers": 1 if offloaded else None,
        "recompute_granularity": (recompute := _maybe(dice, 0.4, "selective", "selective", "full")),
        "recompute_method": "uniform" if recompute == "full" else None,
        "recompute_num_layers": 1 if recompute == "full" else None,
        "recompute_modules": dice.sample(["core_attn", "mlp", "moe", "layernorm"], dice.randint(1, 2))
        if recompute == "selective" and dice.random() < 0.7
        else None,
        "attention_dropout": _maybe(dice, 0.5, 0.0, 0.1),
        "hidden_dropout": _maybe(dice, 0.5, 0.0, 0.1),
        "moe_input_jitter_eps": _maybe(dice, 0.08, 0.01),
        "variable_seq_lengths": None,
        "delay_wgrad_compute": _maybe(dice, 0.1, True),
    }
    if overlap:
        given |= {"overlap_moe_expert_parallel_comm": True, "expert_model_parallel_size": 2, "bf16": True, "num_moe_experts": 8}
        given |= {"moe_token_dispatcher_type": "alltoall", "add_bias_linear": False}
    if core >= (0, 18) and dice.random() < 0.15:
        given |= {"fine_grained_activation_offloading": True, "transformer_impl": "transformer_engine"}
        given["offload_modules"] = dice.sample(["expert_fc1", "moe_act", "core_attn", "attn_norm"], dice.randint(1, 2))
        given["cuda_graph_warmup_steps"] = _maybe(dice, 0.3, 0)
        given["fine_grained_offloading_max_inflight_offloads"] = _maybe(dice, 0.4, 0, -1)
    return {name: value for name, value in given.items() if value is not None}


def flags(dice: random.Random, core: tuple[int, ...]) -> list[str]:
    """Return random flags of Megatron-LM."""
    given = keywords(dice, core)
    words = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32".split()
    words += "--micro-batch-size 1 --train-iters 2 --lr 0.1 --tokenizer-type NullTokenizer --vocab-size 100".split()
    names = {"num_moe_experts": "num-experts"}
    skipped = ("cpu_offloading", "moe_expert_capacity_factor", "moe_pad_expert_input_to_capacity", "bf16")
    for name, value in given.items():
        if name in skipped or name.startswith(("fine_grained", "offload")):
            continue
        flag = f"--{names.get(name, name).replace('_', '-')}"
        if name == "add_bias_linear":
            words.append("--disable-bias-linear")
        elif name == "moe_layer_freq":
            words += [flag, str(value)]
        elif value is True:
            words.append(flag)
        else:
            words += [flag, *(map(str, value) if isinstance(value, list) else str(value).split(" "))]
    extra = (
        "--bf16|--no-check-for-nan-in-loss-and-grad|--te-rng-tracker|--moe-grouped-gemm|--overlap-grad-reduce|"
        "--no-gradient-accumulation-fusion|--add-qkv-bias|--fp8-format hybrid|--inference-dynamic-batching|"
        "--inference-dynamic-batching-num-cuda-graphs 0|--moe-pad-experts-for-cuda-graph-inference|--rl-persist-cuda-graphs|"
        "--rl-reset-cuda-graphs|--cuda-graph-warmup-steps 2|--optimizer-cuda-graph|--inference-cuda-graph-max-tokens 64|"
        "--inference-dynamic-batching-cuda-graph-max-tokens 64|--moe-shared-expert-intermediate-size 64|"
        "--cuda-graph-num-warmup-steps 3"
    ).split("|")
    weights = [0.5, 0.3, 0.2, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1, 0.05, 0.1, 0.02, 0.02, 0.2, 0.03, 0.03, 0.03, 0.2, 0.01]
    for text, share in zip(extra, weights, strict=True):
        if dice.random() < share:
            words += text.split()
    return words


def _cases(dice: random.Random, core: tuple[int, ...], count: int) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = []
    for number in range(count):
        variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if dice.random() < 0.1 else {}
        if variables and dice.random() < 0.4:
            variables["NCCL_GRAPH_REGISTER"] = "0"
        form = "keywords" if number % 2 else "flags"
        cases.append({"form": form, "given": (keywords if form == "keywords" else flags)(dice, core), "variables": variables})
    return cases


def _ours(case: dict[str, Any], core: str) -> set[str]:
    if case["form"] == "keywords":
        arguments = ", ".join(f"{name}={value!r}" for name, value in case["given"].items())
        text = f"config = TransformerConfig(num_layers=4, {arguments})"
        report = examine(text, ".py", [f"megatron-core=={core}", "transformer-engine==2.0"], {}, 90)
    else:
        text = "python pretrain_gpt.py " + " ".join(f"'{word}'" if "[" in word else word for word in case["given"])
        report = examine(text, ".sh", [f"megatron-core=={core}", "transformer-engine==2.0"], case["variables"], 90)
    found = {violation.id for violation in report.violations}
    if any("stops with unrecognized" in rename.message for rename in report.renames):
        found.add("option-not-in-release")
    return found


def ask(python: str, oracle: str, release: str, folder: str, cases: list[dict[str, Any]]) -> list[str]:
    """Return what the packages in a folder say to each case: an empty text, or the exception."""
    ran = subprocess.run(
        [python, "-W", "ignore", "-c", oracle],
        input="\n".join(map(json.dumps, cases)),
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": folder, "WORLD_SIZE": "2", "PATH": "/usr/bin:/bin", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    )
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('"')]
    if len(answers) != len(cases):
        sys.exit(f"{release}: the package answered {len(answers)} of {len(cases)}: {ran.stderr[-500:]}")
    return answers


def expected_of(said: str) -> str | None:
    """Return the constraint that an exception is about."""
    return next((name for pattern, name in SAID.items() if re.search(pattern, said)), None)


def compare(python: str, core: str, folder: str, cases: list[dict[str, Any]]) -> tuple[Counter[str], list[str]]:
    """Return how often both agreed, and what they said where they did not."""
    answers = ask(python, _ORACLE, core, folder, cases)
    counts: Counter[str] = Counter()
    differ = []
    for case, said in zip(cases, answers, strict=True):
        ours = _ours(case, core)
        expected = expected_of(said)
        if said and expected is None:
            counts["about something else"] += 1
            continue
        counts["refused" if said else "taken"] += 1
        later = _RUN_TIME | (_RUN_TIME_BEFORE_0_16 if core < "0.16" else set())
        agree = (expected in ours) if said else not ours - later
        counts["agree" if agree else "differ"] += 1
        counts.update([f"seen {expected}"] if expected else [])
        if not agree:
            given = f"{core} {case['form']} {json.dumps(case['given'])} {case['variables']}"
            differ.append(f"{given}\n    package: {said[:200]}\n    ours: {sorted(ours)}")
    return counts, differ


def main() -> int:
    """Compare the releases that are named; exit 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--core", action="append", required=True, metavar="VERSION=FOLDER")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    rows = {}
    failed = False
    for one in args.core:
        version, _, folder = one.partition("=")
        core = tuple(map(int, version.split(".")))
        counts, differ = compare(
            args.python, version, folder, _cases(random.Random(f"{args.seed} {version}"), core, args.count)
        )
        rows[version] = dict(sorted(counts.items()))
        print(version, {name: count for name, count in rows[version].items() if not name.startswith("seen")})
        print(*differ[:12], sep="\n")
        failed = failed or bool(differ)
    if args.save:
        command = f"python benchmarks/configurations.py --count {args.count} --seed {args.seed} --core VERSION=FOLDER …"
        data = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "command": command, "releases": rows}
        _EVIDENCE.write_text(json.dumps(data, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
