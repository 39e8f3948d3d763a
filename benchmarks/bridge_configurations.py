"""Compare `skill config` with Megatron-Bridge itself: random recipes, one process for each release.

    python benchmarks/bridge_configurations.py --python PYTHON --bridge 0.6.0=0.19.0=FOLDER [--bridge …] [--count 500] [--save]

FOLDER holds one `megatron` package: `bridge` from the wheel of the first release, `core` and `training` as Megatron-LM has
them at the tag of the second. PYTHON has torch and what these import; empty classes stand in for Transformer Engine and a
few other packages, so no GPU is needed. A recipe is executed, then `runtime_config_update` and the model's `provide()` run
up to the first layer. Both must refuse it for the same reason, or both take it. Then each violation that we report is tried
alone: all others are corrected in the text, and the package must refuse what is left for this reason, and take the text in
which nothing is left.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from configurations import ask, expected_of, keywords
from cudagraph_skill.config import correct, examine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.config import Report

_EVIDENCE = Path(__file__).parent / "evidence" / "bridge_configurations.json"

# Runs in the interpreter that has the release; one JSON line in, one out.
ORACLE = '''
import abc, contextlib, importlib.abc, importlib.machinery, io, json, logging, os, sys, types, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
STUBS = "transformer_engine transformer_engine_torch modelopt megatron.energon diffusers webdataset".split()

class Meta(abc.ABCMeta):
    def __getitem__(cls, key): return cls
    def __getattr__(cls, name):
        if name.startswith("_"): raise AttributeError(name)
        return empty(name)
    def __or__(cls, other): return object
    __ror__ = __or__

def empty(name):
    return Meta(name, (), {"__init__": lambda self, *a, **k: None, "__call__": lambda self, *a, **k: a[0] if a else None})

class Stub(types.ModuleType):
    __version__, __path__ = "2.13.0", []
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        setattr(self, name, empty(name))
        return getattr(self, name)

class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{stub}.") for stub in STUBS):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec): return Stub(spec.name)
    def exec_module(self, module): pass

sys.meta_path.append(Stubs())
os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
os.environ |= {"RANK": "0", "NVTE_CPU_OFFLOAD_V1": "1"}
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.recipes.utils.optimizer_utils import distributed_fused_adam_with_cosine_annealing
from megatron.bridge.training import config as configs

class Reached(Exception):
    """The model was about to be built."""

def stop(config, *args, **kwargs):
    raise Reached

def container(model):
    optimizer, scheduler = distributed_fused_adam_with_cosine_annealing(lr_warmup_iters=1, max_lr=1e-3, min_lr=1e-4)
    return configs.ConfigContainer(
        model=model, optimizer=optimizer, scheduler=scheduler,
        train=configs.TrainingConfig(micro_batch_size=1, global_batch_size=4, train_iters=4),
        dataset=configs.GPTDatasetConfig(
            random_seed=1, seq_length=64, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False),
        logger=configs.LoggerConfig(), checkpoint=configs.CheckpointConfig(),
        tokenizer=configs.TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=128))

def base_config(*args, **kwargs):
    """A recipe of a team: a small dense model without dropout."""
    return container(GPTModelProvider(
        num_layers=4, hidden_size=64, num_attention_heads=4, seq_length=64, vocab_size=128, bf16=True, add_bias_linear=False,
        attention_dropout=0.0, hidden_dropout=0.0, normalization="RMSNorm", moe_token_dispatcher_type="alltoall"))

team = types.ModuleType("team")
team.base = types.ModuleType("team.base")
team.base.base_config, team.base.TeamConfigContainer = base_config, container
sys.modules |= {"team": team, "team.base": team.base}

def recipe(text):
    names = {"__name__": "recipe"}
    exec(compile(text, "recipe.py", "exec"), names)
    found = [value for value in names.values() if isinstance(value, configs.ConfigContainer)]
    if not found:
        made = [value for value in names.values() if isinstance(value, types.FunctionType) and value.__module__ == "recipe"]
        found = [made[-1]()]
    cfg = found[-1]
    cfg.model.transformer_layer_spec = stop
    configs.runtime_config_update(cfg)
    with contextlib.suppress(Reached):
        cfg.model.provide()

for line in sys.stdin:
    case = json.loads(line)
    kept = dict(os.environ)
    os.environ.update(case["variables"])
    says = ""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            recipe(case["text"])
        except Exception as failure:
            says = type(failure).__name__ + ": " + " ".join(str(failure).split())
    os.environ.clear()
    os.environ.update(kept)
    print(json.dumps(says), flush=True)
'''

# Raised when layers or graphs are made, which needs a GPU, or never: what a release does not have is set without effect.
_LATER = {
    "variable-sequence-lengths",
    "expert-overlap-with-fsdp",
    "expandable-segments",
    "fused-cross-entropy-engine",
    "option-not-in-release",
    "bridge-packed-attention-captured",
}
_MODEL = "num_layers=4, hidden_size=64, num_attention_heads=4, seq_length=64, vocab_size=128, bf16=True"
_IMPORTS = """\
try:
    from megatron.bridge.data.packing.config import PackedSequenceSpecs
except ImportError:
    from megatron.bridge.data.datasets.packed_sequence import PackedSequenceSpecs
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.config import *
from megatron.core.transformer.enums import CudaGraphScope
from team.base import TeamConfigContainer, base_config
"""


class Release(NamedTuple):
    """A release of Bridge with its Megatron-Core, and the folder that has both."""

    bridge: str
    core: str
    folder: str

    @property
    def wanted(self) -> list[str]:
        """Return what `--for` gets."""
        return [f"megatron-bridge=={self.bridge}", f"megatron-core=={self.core}", "transformer-engine==2.13"]


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _recipe(dice: random.Random, release: Release) -> str:
    """Return a random recipe: the model's settings by attribute or by keyword, and those of Bridge's own sections."""
    core, bridge = _version(release.core), _version(release.bridge)
    model = {name: value for name, value in keywords(dice, core).items() if name not in ("bf16", "enable_cuda_graph")}
    if dice.random() < 0.05:
        model["enable_cuda_graph"] = True
    if dice.random() < 0.15:
        model = {name: value for name, value in model.items() if not name.startswith(("cuda_graph", "inference_cuda"))}
        model |= {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"]}
        if core >= (0, 18) and dice.random() < 0.5:
            model |= {"cuda_graph_impl": "full_iteration", "cuda_graph_scope": None}
    model |= dict(_extra_fields(dice))
    written = {name: _written(dice, name, value, core) for name, value in model.items()}
    lines = list(_sections(dice, bridge))
    if dice.random() < 0.3:
        given = ", ".join(f"{name}={value}" for name, value in written.items())
        head = [f"cfg = TeamConfigContainer(model=GPTModelProvider({_MODEL}, {given}))"]
    elif dice.random() < 0.6:
        head = [f"cfg = TeamConfigContainer(model=GPTModelProvider({_MODEL}))"]
        lines = [*(f"cfg.model.{name} = {value}" for name, value in written.items()), *lines]
    else:
        head = ["cfg = base_config()"]
        lines = [*(f"cfg.model.{name} = {value}" for name, value in written.items()), *lines]
    dice.shuffle(lines)
    lines.sort(key=lambda line: line.count("."))  # sections before their fields
    return _IMPORTS + "\n".join([*head, *lines]) + "\n"


def _extra_fields(dice: random.Random) -> Iterator[tuple[str, Any]]:
    """Yield fields of the model that TransformerConfig alone gives no reason to set."""
    chances: list[tuple[float, str, Any]] = [
        (0.4, "use_te_rng_tracker", True),
        (0.15, "gradient_accumulation_fusion", False),
        (0.5, "add_bias_linear", False),
        (0.08, "add_qkv_bias", True),
        (0.15, "moe_shared_expert_intermediate_size", 64),
        (0.05, "moe_shared_expert_overlap", True),
        (0.3, "cuda_graph_warmup_steps", 2),
        (0.05, "variable_seq_lengths", False),
    ]
    for share, name, value in chances:
        if dice.random() < share:
            yield name, value


def _written(dice: random.Random, name: str, value: Any, core: tuple[int, ...]) -> str:
    """Spell a value; modules of graphs also as members of their enumeration."""
    members = {"attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba", "full_iteration"}
    listed = name == "cuda_graph_scope" and isinstance(value, list) and set(value) <= members
    if listed and core >= (0, 16) and dice.random() < 0.4:
        return f"[{', '.join(f'CudaGraphScope.{word}' for word in value)}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _sections(dice: random.Random, bridge: tuple[int, ...]) -> Iterator[str]:
    """Yield statements about the sections beside the model."""
    chances = [
        (0.5, "cfg.rng.te_rng_tracker = True"),
        (0.5, "cfg.rerun_state_machine.check_for_nan_in_loss = False"),
        (0.3, "cfg.ddp.check_for_nan_in_grad = False"),
        (0.3, "cfg.ddp.overlap_grad_reduce = True"),
        (0.2, 'cfg.mixed_precision = "bf16_mixed"'),
        (0.1, 'cfg.mixed_precision = "bf16_with_fp8_delayed_scaling_mixed"'),
    ]
    yield from (line for share, line in chances if dice.random() < share)
    if dice.random() < 0.25:
        yield from _overlap(dice)
    if dice.random() < 0.25 and bridge >= (0, 6):
        yield from _packing(dice)


def _overlap(dice: random.Random) -> Iterator[str]:
    given = {"overlap_moe_expert_parallel_comm": dice.choice([True, True, False]), "delay_wgrad_compute": True}
    chosen = {name: value for name, value in given.items() if dice.random() < 0.7}
    if dice.random() < 0.5:
        arguments = ", ".join(f"{name}={value}" for name, value in {"tp_comm_overlap": False, **chosen}.items())
        yield f"cfg.comm_overlap = CommOverlapConfig({arguments})"
    else:
        yield "cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False)"
        yield from (f"cfg.comm_overlap.{name} = {value}" for name, value in chosen.items())
    if dice.random() < 0.8:
        yield from ("cfg.model.expert_model_parallel_size = 2", "cfg.model.num_moe_experts = 8")
        yield 'cfg.model.moe_token_dispatcher_type = "alltoall"'


def _packing(dice: random.Random) -> Iterator[str]:
    padded = dice.random() < 0.6
    kwargs = ', dataset_kwargs={"pad_to_max_length": True}' if padded and dice.random() < 0.7 else ""
    lengths = dice.choice(["", ", pad_cu_seqlens=True", ", pad_cu_seqlens=False"])
    specs = f"PackedSequenceSpecs(packed_sequence_size=64{lengths})"
    if dice.random() < 0.5:
        specs = f", enable_offline_packing=True, offline_packing_specs={specs}"
    else:
        yield "cfg.dataset.enable_offline_packing = True"
        yield f"cfg.dataset.offline_packing_specs = {specs}"
        specs = ""
    yield f'cfg.dataset = GPTSFTDatasetConfig(seq_length=64, dataset_root="data"{specs}{kwargs})'
    if padded and not kwargs:
        yield 'cfg.dataset.dataset_kwargs = {"pad_to_max_length": True}'


class Case(NamedTuple):
    """A text, and what is expected of the package: a reason to refuse it, or None where it must take it."""

    text: str
    variables: dict[str, str]
    alone: str | None = None  # the one violation that was left in the text
    corrected: bool = False


def report_of(case: Case, release: Release) -> Report:
    """Return what we say of a recipe."""
    return examine(case.text, ".py", release.wanted, case.variables, 90)


def _variations(case: Case, release: Release) -> Iterator[Case]:
    """Yield the text with all violations corrected, and with all but one."""
    ids = {violation.id for violation in report_of(case, release).violations}
    if not ids:
        return
    yield from _corrected(case, release, None)
    for kept in ids - _LATER if len(ids) > 1 else ():
        yield from _corrected(case, release, kept)


def _corrected(case: Case, release: Release, kept: str | None) -> Iterator[Case]:
    """Yield the text with all violations corrected but one, if that can be written."""

    def check(text: str) -> Report:
        report = report_of(case._replace(text=text), release)
        return replace(report, violations=[one for one in report.violations if one.id != kept], renames=[])

    fixed = correct(case.text, check)
    left = {violation.id for violation in report_of(case._replace(text=fixed.text), release).violations}
    if left == ({kept} if kept else set()):
        yield Case(fixed.text, case.variables, kept, corrected=True)


def outcome(case: Case, said: str, release: Release) -> tuple[str, str]:
    """Return how a case went: a word to count it under, and what differs where something does."""
    report = report_of(case, release)
    ours = {violation.id for violation in report.violations}
    expected = expected_of(said)
    if said and expected is None:
        return "about something else", ""
    if any(str(expected) in reason and "base_config()" in reason for reason in report.unread):
        return "depends on the base", ""
    wanted = case.alone or expected
    if said and expected == wanted and expected in ours:
        return "refused by both", ""
    if not said and not case.alone and ours <= _LATER:
        return "taken by both", ""
    return "differ", f"{said[:200] or 'taken'}\n    ours: {[case.alone] if case.alone else sorted(ours)}"


def compare(python: str, release: Release, cases: list[Case]) -> tuple[Counter[str], list[str]]:
    """Return how often both agreed, and what they said where they did not."""
    varied = [variation for case in cases for variation in _variations(case, release)]
    every = [*cases, *varied]
    answers = ask(python, ORACLE, release.bridge, release.folder, [case._asdict() for case in every])
    counts: Counter[str] = Counter()
    differ = []
    for case, said in zip(every, answers, strict=True):
        word, difference = outcome(case, said, release)
        counts[word] += 1
        counts["corrected, then taken" if case.alone is None else "one violation left"] += case.corrected
        counts.update([f"seen {expected_of(said)}"] if said and expected_of(said) else [])
        if word == "about something else":
            counts[f"other {said[:90]}"] += 1
        if difference:
            differ.append(f"{release.bridge} {case.variables}\n{case.text.removeprefix(_IMPORTS)}    {difference}")
    return counts, differ


def _cases(release: Release, seed: int, count: int) -> list[Case]:
    dice = random.Random(f"{seed} {release.bridge}")
    return [Case(_recipe(dice, release), {}) for _ in range(count)]


def main() -> int:
    """Compare the releases that are named; exit 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bridge", action="append", required=True, metavar="BRIDGE=CORE=FOLDER")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=12, help="differences to print for a release")
    parser.add_argument("--others", action="store_true", help="print what the packages refuse for reasons other than graphs")
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    rows = {}
    failed = False
    for one in args.bridge:
        release = Release(*one.split("="))
        counts, differ = compare(args.python, release, _cases(release, args.seed, args.count))
        others = {name: count for name, count in counts.most_common() if name.startswith("other ")}
        rows[release.bridge] = {name: counts[name] for name in sorted(counts) if name not in others}
        print(release.bridge, rows[release.bridge])
        print(*(f"  {count} {name}" for name, count in others.items() if args.others), sep="\n")
        print(*differ[: args.show], sep="\n")
        failed = failed or bool(differ)
    if args.save:
        command = (
            f"python benchmarks/bridge_configurations.py --count {args.count} --seed {args.seed} --bridge BRIDGE=CORE=FOLDER …"
        )
        data = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "command": command, "releases": rows}
        _EVIDENCE.write_text(json.dumps(data, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
