"""Workflow, options and versions to a program; what does not go together is refused with the reason and the nearest that does.

The texts are templates/*.jinja, one chapter each, plain Python but for lines that begin with `#:` and words in «».
"""

from __future__ import annotations

import itertools
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import jinja2

_TEMPLATES = Path(__file__).resolve().parent / "templates"


class Workflow(NamedTuple):
    """A workflow of SKILL.md: its number there, and one line about what it is for."""

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
PLAIN = ("reduce-overhead", "make-graphed-callables", "manual", "manual-over-compile")  # those of PyTorch alone
_BY_HAND = ("manual", "manual-over-compile")
_MEGATRON = ("mcore-per-layer", "mcore-full-iteration")


class Options(NamedTuple):
    """What a program is to do. Without `training` it infers; `accumulate` is the number of microbatches, 0 for none."""

    workflow: str
    training: bool = False
    amp: str = ""
    accumulate: int = 0
    ddp: bool = False
    fsdp: bool = False
    rng: bool = False
    partial: bool = False
    buckets: bool = False
    decode: bool = False
    pool: bool = False
    fp8: bool = False


# Reasons that recommend.py gives as well.
FP8_STATE = "FP8 layers keep scaling factors that a plain capture freezes; Transformer Engine's own capture updates them"
BOTH_DISTRIBUTE = "both of them distribute the gradients: FSDP2 does what DDP does, and shards"
NO_GRADIENTS = "there are no gradients to synchronize in inference: run one process for each GPU"


class Rule(NamedTuple):
    """Options that do not go together: `clash` finds them, `reason` says why, `instead` changes them to the nearest that do."""

    clash: Callable[[Options], bool]
    reason: str
    instead: dict[str, Any]


SHAPES = ("buckets", "decode", "pool", "partial")  # what an inference program is built around; one of them
ALWAYS_TRAIN = ("transformer-engine", *_MEGATRON)
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
        "its layers are run in bfloat16 (or FP8), which needs no loss scaling",
        {"amp": "bf16"},
    ),
    Rule(
        lambda o: o.workflow in ALWAYS_TRAIN and (o.ddp or o.fsdp),
        "Megatron brings its own data parallelism, and with Transformer Engine the layers are graphed before they are wrapped",
        {"ddp": False, "fsdp": False},
    ),
    Rule(
        lambda o: o.workflow in ALWAYS_TRAIN and o.rng,
        "its random states are registered with the graphs by its own tracker",
        {"rng": False},
    ),
    Rule(
        lambda o: o.workflow in _MEGATRON and bool(o.accumulate),
        "the number of microbatches is a setting of Megatron's schedule, and the program has it already",
        {"accumulate": 0},
    ),
    Rule(
        lambda o: o.workflow in (*ALWAYS_TRAIN, "profile") and any(getattr(o, each) for each in SHAPES),
        "the program is built around whole steps of fixed shape",
        dict.fromkeys(SHAPES, False),
    ),
    Rule(
        lambda o: o.workflow == "profile" and bool(o.ddp or o.fsdp or o.rng or o.accumulate),
        "measure one process and one plain step first: whether launches are the limit does not depend on it",
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
    Rule(lambda o: bool(o.accumulate) and not o.training, "there are no gradients to add up in inference", {"accumulate": 0}),
    Rule(
        lambda o: o.training and any(getattr(o, each) for each in ("buckets", "decode", "pool")),
        "buckets, decoding and pools of graphs are for inference",
        {"training": False},
    ),
    Rule(
        lambda o: (o.pool or o.partial) and sum(getattr(o, each) for each in SHAPES) > 1,
        "an inference program is built around one of `--buckets`, `--decode`, `--pool` and `--partial`",
        {"pool": False, "partial": False},
    ),
    Rule(
        lambda o: o.buckets and o.decode,
        "an inference program is built around one of `--buckets`, `--decode`, `--pool` and `--partial`",
        {"buckets": False},
    ),
    Rule(
        lambda o: o.training and o.partial and o.workflow in _BY_HAND,
        "a backward through several graphs by hand would need its own autograd function, which make_graphed_callables is",
        {"workflow": "make-graphed-callables"},
    ),
    Rule(
        lambda o: o.partial and o.workflow == "reduce-overhead",
        "the compiler splits the model at what it cannot capture without being told",
        {"partial": False},
    ),
    Rule(
        lambda o: o.pool and o.workflow not in _BY_HAND,
        "only a capture by hand chooses its memory pool; the compiler and make_graphed_callables share one by themselves",
        {"workflow": "manual"},
    ),
    Rule(
        lambda o: (o.buckets or o.decode) and o.workflow == "make-graphed-callables",
        "it takes one shape and no arguments but tensors",
        {"workflow": "manual"},
    ),
    Rule(
        lambda o: o.rng and o.workflow in ("reduce-overhead", "make-graphed-callables"),
        "an own generator has to be registered with the graph before the capture (torch <=2.13), and here that is out of reach",
        {"workflow": "manual", "partial": False},
    ),
    Rule(
        lambda o: o.rng and (o.ddp or o.fsdp),
        "an own generator would need a seed and a saved state for each rank, which the program does not keep",
        {"rng": False},
    ),
    Rule(
        lambda o: o.rng and not (o.training or o.decode),
        "nothing in a plain forward draws random numbers; `--training` and `--decode` do",
        {"rng": False},
    ),
    Rule(
        lambda o: o.fsdp and o.amp == "fp16",
        "with float16 an overflow in one shard has to skip the step of all, which was not tried; bfloat16 needs no scaling",
        {"amp": "bf16"},
    ),
    Rule(
        lambda o: o.fsdp and o.workflow == "reduce-overhead",
        "FSDP2 gathers the weights anew in each step, and the compiler records again where an address has changed",
        {"workflow": "manual-over-compile"},
    ),
    Rule(
        lambda o: o.fsdp and o.workflow == "make-graphed-callables",
        "FSDP2 puts hooks on the modules, and it refuses modules with hooks",
        {"workflow": "manual", "partial": False},
    ),
]


def checked(options: Options) -> Options:
    """`options`, if there is a program for them.

    Raises:
        SkillError: there is none; the sentence says why and ends in the nearest command that works.
    """
    if options.workflow not in WORKFLOWS:
        raise SkillError(f"skill scaffold: there is no workflow {options.workflow}; there are {', '.join(WORKFLOWS)}")
    broken = next((rule for rule in RULES if rule.clash(options)), None)
    if broken is None:
        return options
    raise SkillError(
        f"skill scaffold: `{spelled(options)}`: {broken.reason}; nearest: `skill scaffold {spelled(nearest(options))}`"
    )


def nearest(options: Options) -> Options:
    """The same with what clashes changed, rule by rule, until nothing does."""
    for _ in RULES:
        broken = next((rule for rule in RULES if rule.clash(options)), None)
        if broken is None:
            break
        options = options._replace(**broken.instead)
    return options


def spelled(options: Options) -> str:
    """The arguments of `skill scaffold` that ask for this."""
    words = [f"--workflow {options.workflow}"]
    for name, value in options._asdict().items():
        if name != "workflow" and value:
            words.append(f"--{name}" if value is True else f"--{name} {value}")
    return " ".join(words)


def offered() -> list[Options]:
    """Every combination that there is a program for, with four microbatches where there are any."""
    values: dict[str, tuple[Any, ...]] = dict.fromkeys(Options._fields, (False, True))
    values |= {"workflow": tuple(WORKFLOWS), "amp": ("", "bf16", "fp16"), "accumulate": (0, 4)}
    every = (Options(*each) for each in itertools.product(*values.values()))
    return [each for each in every if not any(rule.clash(each) for rule in RULES)]


def template(options: Options) -> str:
    """The name of the file that holds the program's text."""
    if options.workflow in ("profile", "transformer-engine"):
        return f"{options.workflow.replace('-', '_')}.py.jinja"
    if options.workflow in _MEGATRON:
        return "mcore.py.jinja"
    if options.training:
        return "training_manual.py.jinja" if options.workflow in _BY_HAND else "training_model.py.jinja"
    return f"{next((each for each in SHAPES if getattr(options, each)), 'inference')}.py.jinja"


# Versions -------------------------------------------------------------------------------------------------------------


class Versions(NamedTuple):
    """Release (major, minor) of each package that a program is written for."""

    torch: tuple[int, int]
    transformer_engine: tuple[int, int]
    megatron_core: tuple[int, int]


# What the templates know: torch, Transformer Engine and Megatron-Core were read in each of these releases.
OLDEST = Versions((2, 4), (2, 1), (0, 14))
NEWEST = Versions((2, 15), (2, 20), (0, 19))
_REQUIREMENT = re.compile(r"([\w.-]*)\s*([<>=!~]*)\s*(.*)", re.DOTALL)  # package, comparison and version
_RELEASE = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?![0-9])[\w.+*-]*")
_NAMES = {"transformer_engine": "transformer-engine", "megatron_core": "megatron-core"}


def versions(wanted: Sequence[str], installed: Mapping[str, str]) -> Versions:
    """What to write for: `wanted` ("torch==2.6") before `installed` ({"torch": "2.11.0+cu130"}) before the newest known.

    Raises:
        SkillError: a text is no requirement of one of the three packages, or a release that the templates do not know; two
            name different releases of a package.
    """
    found: dict[str, tuple[int, int]] = {}
    for name, release in map(_requirement, wanted):
        if found.setdefault(name, release) != release:
            both = f"{_NAMES.get(name, name)} {_dotted(found[name])} and {_dotted(release)}"
            raise SkillError(
                f"skill scaffold: `--for` asks for {both}: a program is written for one release, leave the other out"
            )
    found = dict(_requirement(f"{name}=={text}") for name, text in installed.items()) | found
    return Versions(*(_known(name, found.get(name, getattr(NEWEST, name))) for name in Versions._fields))


def _requirement(text: str) -> tuple[str, tuple[int, int]]:
    """("torch", (2, 6)) of "torch==2.6.1"."""
    match = _REQUIREMENT.fullmatch(text.strip())
    assert match is not None
    package, sign, version = match.groups()
    name, release = re.sub(r"[.-]", "_", package.lower()), _RELEASE.fullmatch(version)
    if name in Versions._fields and sign in ("=", "==") and release:
        return name, (int(release[1]), int(release[2]))
    if name not in Versions._fields:
        why = f"the packages are {', '.join(_NAMES.get(each, each) for each in Versions._fields)}"
    elif not sign:
        why = "it names no release"
    elif sign in ("=", "=="):
        why = f"`{version[:60]}` is no release, which has a major and a minor number"
    else:
        why = f"`{sign[:9]}` leaves the release open"
    raise SkillError(
        f"skill scaffold: `--for {quoted(text[:60])}`: {why}; write one release of one package, such as torch==2.6"
    )


def _known(name: str, release: tuple[int, int]) -> tuple[int, int]:
    oldest, newest = getattr(OLDEST, name), getattr(NEWEST, name)
    if oldest <= release <= newest:
        return release
    near = oldest if release < oldest else newest
    package = _NAMES.get(name, name)
    raise SkillError(
        f"skill scaffold: {package} {_dotted(release)} is not among the releases that the templates were written for "
        f"({_dotted(oldest)} to {_dotted(newest)}); nearest: `--for {package}=={_dotted(near)}`"
    )


def _dotted(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


# Text -----------------------------------------------------------------------------------------------------------------


def program(options: Options, given: Versions, file: str = "step.py") -> str:
    """The text of the program, named `file` where it says how it is run.

    Raises:
        SkillError: the options do not go together, or the releases do not.
    """
    name = template(checked(options))
    _refuse_together(options, given)
    return _environment().get_template(name).render(_words(options, given, file))


def _refuse_together(options: Options, given: Versions) -> None:
    """Nothing, where the releases of Megatron-Core and Transformer Engine work together (read in the source of both).

    Raises:
        SkillError: graphs of FP8 layers would fail; the sentence has the nearest release.
    """
    if not (options.workflow == "mcore-per-layer" and options.fp8):
        return
    core, engine = given.megatron_core, given.transformer_engine
    lacks, near = "", (0, 0)
    if core >= (0, 16) and engine < (2, 6):
        lacks, near = "make_weak_ref", (2, 6)
    if core < (0, 18) and (2, 15) <= engine < (2, 17):
        lacks, near = "set_skip_fp8_weight_update_tensor", (2, 17)
    if lacks:
        raise SkillError(
            f"skill scaffold: graphs of megatron-core {_dotted(core)} call {lacks}, which Transformer Engine {_dotted(engine)} "
            f"does not have; nearest: `--for transformer-engine=={_dotted(near)}`"
        )


def _words(options: Options, given: Versions, file: str) -> dict[str, Any]:
    """What the templates may say."""
    distributed = options.ddp or options.fsdp
    compiled = options.workflow in ("reduce-overhead", "manual-over-compile")
    ways = ("eager", "compiled", "graph") if compiled else ("eager", "graph")
    dtype = {"": "", "bf16": "torch.bfloat16", "fp16": "torch.float16"}[options.amp]
    autocast = bool(dtype) and not options.fsdp  # FSDP2 has a policy of its own
    policy = ", mp_policy=policy" if dtype else ""
    return {
        **options._asdict(),
        "way": options.workflow,
        "file": file,
        "steps": 50,
        "compiled": compiled,
        "distributed": distributed,
        "dtype": dtype,
        "autocast": autocast,
        "autocast_also": f', torch.autocast("cuda", {dtype})' if autocast else "",
        "launch": "torchrun --nproc-per-node 2" if distributed else "python",
        "ways": ", ".join(f'"{way}"' for way in ways),
        "ways_text": ", ".join(ways),
        "shard": lambda module: f"fully_shard({module}, reshard_after_forward=False{policy})",
        "fsdp_module": "torch.distributed.fsdp" if given.torch >= (2, 6) else "torch.distributed._composable.fsdp",
        "register": given.torch < (2, 14),  # from 2.14 on a capture registers each generator that it meets
        "torch": _dotted(given.torch),
        "versions": given,
    }


@cache
def _environment() -> jinja2.Environment:
    """Templates that read as Python: statements in comments of their own, words in quotes that Python does not have.

    Raises:
        SkillError: jinja2 is not installed (exit code 3).
    """
    try:
        import jinja2
    except ImportError:
        raise SkillError("skill scaffold needs the package jinja2: pip install jinja2 (torch brings it along)", 3) from None
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        variable_start_string="«",
        variable_end_string="»",
        block_start_string="#:",  # jinja's own line statements would swallow the empty lines after them
        block_end_string="\n",
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python, not HTML
    )
