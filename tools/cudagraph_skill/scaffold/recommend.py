"""The decision flow of SKILL.md: answers about a workload to a workflow, the reason, and what else to try when."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold.options import ALWAYS_TRAIN, BY_HAND, PLAIN, SHAPES, Options
from cudagraph_skill.scaffold.rules import BOTH_DISTRIBUTE, FP8_STATE, NO_GRADIENTS, RULES, broken
from cudagraph_skill.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

BUSY = 95.0  # percent of the step: above it a graph removes nothing worth having
FRAMEWORKS = ("pytorch", "transformer-engine", "megatron", "megatron-bridge")
KINDS = ("static", "dynamic", "buckets")
_ALSO = {
    "torch": "pytorch",
    "te": "transformer-engine",
    "mcore": "megatron",
    "megatron-core": "megatron",
    "megatron-lm": "megatron",
}


class Answers(NamedTuple):
    """What is known about a workload; None, "" and False where nothing was said."""

    framework: str = ""
    training: bool | None = None
    shapes: str = ""
    fp8: bool = False
    pp: bool = False
    moe: bool = False
    control: bool = False
    no_compile: bool = False
    host_reads: bool = False
    decode: bool = False
    ddp: bool = False
    fsdp: bool = False
    amp: str = ""
    busy: float | None = None


# The same as questions, those that decide first.
QUESTIONS = {
    "--busy": f"how much of the step the GPU is busy, in percent; above {BUSY:g} no graph helps",
    "--framework": f"which library runs the layers: {', '.join(FRAMEWORKS)}",
    "--training, --inference": "is it trained, or only run",
    "--fp8": "do layers compute in FP8",
    "--shapes": "static: every step has the same; buckets: a few sizes, or padded to such; dynamic: any",
    "--host-reads": "does a part of the step read values on the host, or can otherwise not be captured",
    "--decode": "does it generate token by token with a KV cache",
    "--moe": "are tokens sent to experts, so that sizes depend on the data",
    "--pp": "is the model a pipeline over several GPUs",
    "--control": "is the optimizer to be in the graph, and every step of the capture to be yours",
    "--no-compile": "must torch.compile stay out",
    "--ddp, --fsdp, --amp": "what the program is to have too; mixed precision is bf16 or fp16",
}


class Candidate(NamedTuple):
    """A program that may be the right one, and when it is."""

    options: Options
    when: str


class Recommendation(NamedTuple):
    """The program to begin with, why, what the answers left open or out, and the others with when to take them."""

    options: Options
    why: str
    notes: tuple[str, ...]
    instead: tuple[Candidate, ...]
    questions: dict[str, str]


class _Branch(NamedTuple):
    """One step of the flow: the first that fits decides."""

    fits: Callable[[Answers], bool]
    workflow: str
    why: str
    shape: str = ""


def _megatron(a: Answers) -> bool:
    return a.framework in ("megatron", "megatron-bridge")


def _stuck(a: Answers) -> bool:
    """Tell whether part of the step cannot be captured."""
    return a.host_reads or a.moe


def _changing(a: Answers) -> bool:
    """Tell whether shapes differ from step to step, and no set of graphs by size serves: that is for inference."""
    return a.shapes == "dynamic" or (a.shapes == "buckets" and _trains(a))


def _trains(a: Answers) -> bool:
    """Tell whether it trains: as said, else as what only a training has, or libraries that are there for it, suggest."""
    if a.training is None:
        suggested = a.ddp or a.fsdp or a.pp or a.control or a.fp8 or a.framework not in ("", "pytorch")
        return suggested and not a.decode
    return a.training


def _infers(a: Answers) -> bool:
    """Tell whether the request is for inference."""
    return a.training is False or a.decode


def _by_hand(a: Answers) -> bool:
    return a.no_compile or a.control


_FLOW = [
    _Branch(
        lambda a: a == Answers(),
        "profile",
        "Measure first: a graph pays where the GPU waits for the CPU, and nowhere else.",
    ),
    _Branch(
        lambda a: (a.busy or 0) > BUSY,
        "profile",
        "The GPU is busy nearly all of the time: graphs will not help, faster kernels will. Check that figure first.",
    ),
    _Branch(
        lambda a: _megatron(a) and _infers(a),
        "mcore-per-layer",
        "Megatron-Core graphs inference with `cuda_graph_impl` local, layer by layer.",
    ),
    _Branch(
        lambda a: _megatron(a) and not _stuck(a) and a.shapes in ("", "static"),
        "mcore-full-iteration",
        "With static shapes and without MoE dispatch Megatron-Core captures forward and backward of a whole iteration.",
    ),
    _Branch(
        _megatron,
        "mcore-per-layer",
        "MoE dispatch, host reads or changing sizes keep a whole iteration out of a graph, but not its static layers.",
    ),
    _Branch(
        lambda a: a.fp8,
        "transformer-engine",
        f"{FP8_STATE}.",
    ),
    _Branch(
        lambda a: a.framework == "transformer-engine",
        "transformer-engine",
        "Transformer Engine's modules have state of their own (scaling factors, random states), which its own capture knows.",
    ),
    _Branch(
        lambda a: a.pp,
        "transformer-engine",
        "A pipeline runs several microbatches forward and backward in turns; Transformer Engine's capture keeps that order.",
    ),
    _Branch(
        lambda a: a.fsdp and (_stuck(a) or _changing(a)),
        "",
        "FSDP2 leaves no way to split the step: it gathers weights anew in each, which rules out reduce-overhead, and its "
        "hooks rule out make_graphed_callables. So all of it is one graph.",
    ),
    _Branch(
        lambda a: (_stuck(a) or _changing(a)) and not _by_hand(a),
        "reduce-overhead",
        "The step is not the same for every replay, so the compiler splits it, and captures what can be, for each shape.",
    ),
    _Branch(
        lambda a: a.decode,
        "",
        "Every token is the same step on a KV cache of fixed size; the host may read values between replays only.",
        "decode",
    ),
    _Branch(
        lambda a: _trains(a) and (_stuck(a) or _changing(a)),
        "make-graphed-callables",
        "The whole step is no graph, but its static parts are, forward and backward; the rest stays eager between them.",
        "partial",
    ),
    _Branch(_stuck, "manual", "The static parts are graphs, and what reads values stays eager between them.", "partial"),
    _Branch(
        lambda a: a.shapes in ("buckets", "dynamic"),
        "",
        "A graph has one shape: there is one for each size, and inputs are padded to the next.",
        "buckets",
    ),
    _Branch(lambda _: True, "", "Shapes are static and nothing in the step waits for the host: all of it is one graph."),
]


class _Remark(NamedTuple):
    """What becomes of answers (one of the fields `on`) that the program does not simply have, where `fits`."""

    on: tuple[str, ...]
    fits: Callable[[Answers, Options], bool]
    text: str


def _in_parts(a: Answers, o: Options) -> bool:
    """Return parts of the step are graphs of one shape each, and the reason for the workflow does not say so."""
    return o.workflow in ("transformer-engine", "make-graphed-callables") or (o.workflow == "mcore-per-layer" and _infers(a))


_STAGES = "the program has one stage; for several see references/api-te-megatron.md#"
_REMARKS = [
    _Remark(
        ("training", "decode"),
        lambda a, o: o.training and _infers(a),
        "the program trains: take from it how the layers are graphed (references/api-te-megatron.md has inference)",
    ),
    _Remark(
        ("framework",),
        lambda a, o: a.framework == "pytorch" and o.workflow == "transformer-engine",
        "PyTorch alone has no such capture; Transformer Engine is a separate package, and captures modules of PyTorch too",
    ),
    _Remark(
        ("control",),
        lambda _, o: o.workflow == "make-graphed-callables",
        "the optimizer stays eager: only a graph of the whole step can have it, which needs one shape and no host reads",
    ),
    _Remark(
        ("control",),
        lambda _, o: o.workflow in ALWAYS_TRAIN,
        "the capture is the library's own, and leaves an optimizer eager",
    ),
    _Remark(
        ("host_reads", "moe"),
        lambda _, o: o.workflow in BY_HAND and not o.partial,
        "that has to move out of the step first: a graph of all of it cannot hold what the host decides",
    ),
    _Remark(
        ("host_reads", "moe"),
        lambda a, o: _in_parts(a, o) and not o.partial,
        "that has to stay outside the layers that are graphed, and runs eagerly",
    ),
    _Remark(
        ("shapes",),
        lambda a, o: a.shapes != "static" and o.decode and o.workflow in BY_HAND,
        "a step is one token of each sequence, whose shape no prompt changes; another batch size needs another graph",
    ),
    _Remark(
        ("shapes",),
        lambda a, o: a.shapes != "static" and not (o.buckets or o.decode) and (o.workflow in BY_HAND or _in_parts(a, o)),
        "a graph has one shape: pad the inputs to it, capture one for each size, or run rare sizes eagerly",
    ),
    _Remark(
        ("pp",),
        lambda _, o: o.workflow == "transformer-engine",
        f"{_STAGES}te-pipeline-parallelism-in-a-custom-loop-one-graph-per-microbatch",
    ),
    _Remark(
        ("pp",),
        lambda a, o: _megatron(a) and o.workflow != "profile",
        f"{_STAGES}pipeline-and-virtual-pipeline-parallelism-how-many-graphs-what-must-stay-constant",
    ),
]


class _Other(NamedTuple):
    """Another workflow, where `fits`, with when to take it."""

    workflow: str
    when: str
    fits: Callable[[Answers], bool] = lambda _: True
    partial: bool = False


def _is_plain(a: Answers) -> bool:
    """Tell whether nothing that was said keeps a whole step from being one graph of PyTorch alone."""
    return not (a.fp8 or a.pp or _stuck(a) or _changing(a))


_UNSURE = "before anything else, if it is not known what the GPU waits for"
_PLAIN_STEP = "without FP8 and without a pipeline"
_HOW = {
    "manual": " Captured by hand, with the optimizer in it where there is one.",
    "manual-over-compile": " Compiled first, it is the best measured speed.",
}
_COMPILED = _Other("manual-over-compile", "where the model may be compiled: the best measured speed")
_QUICK = _Other("reduce-overhead", "for a quick try, and where graph breaks are expected", lambda a: not _by_hand(a))
_MODEL = _Other(
    "make-graphed-callables", "when loss or optimizer cannot be in the graph", lambda a: _trains(a) and not a.control
)
_PARTS = _Other(
    "make-graphed-callables",
    "where what reads values has to stay in the step: its static parts alone",
    lambda a: a.decode and _stuck(a),
    partial=True,
)
_OTHERS = {
    "profile": (_COMPILED, _QUICK),
    "reduce-overhead": (
        _Other("make-graphed-callables", "for the static parts alone, without the compiler", _stuck, partial=True),
        _Other("manual-over-compile", "once the step is static and free of host reads: the best measured speed"),
    ),
    "make-graphed-callables": (
        _Other("reduce-overhead", "where the model may be compiled", lambda a: not _by_hand(a)),
        _Other("manual", "once the step is static and free of host reads"),
    ),
    "transformer-engine": (
        _Other("mcore-per-layer", "when Megatron runs the layers"),
        _Other("manual-over-compile", _PLAIN_STEP, lambda a: _is_plain(a) and not _by_hand(a)),
        _Other("manual", _PLAIN_STEP, lambda a: _is_plain(a) and _by_hand(a)),
    ),
    "mcore-per-layer": (
        _Other(
            "mcore-full-iteration",
            "when shapes are static and there is no MoE dispatch",
            lambda a: not _stuck(a) and not _infers(a),
        ),
        _Other("transformer-engine", "when the schedule is your own"),
    ),
    "mcore-full-iteration": (
        _Other("mcore-per-layer", "when something in the iteration cannot be captured, or to begin with less"),
        _Other("transformer-engine", "when the schedule is your own"),
    ),
    "manual": (_COMPILED._replace(fits=lambda a: not a.no_compile), _MODEL, _PARTS),
    "manual-over-compile": (_Other("manual", "when it must not be compiled"), _QUICK, _MODEL),
}
_CLASHES: list[tuple[Callable[[Answers], bool], str, dict[str, Any]]] = [
    (lambda a: bool(a.decode and a.training), "generating token by token is inference", {"training": None}),
    (lambda a: a.ddp and a.fsdp, BOTH_DISTRIBUTE, {"ddp": False}),
    (
        lambda a: (a.ddp or a.fsdp) and (a.decode or a.training is False),
        NO_GRADIENTS,
        {"ddp": False, "fsdp": False},
    ),
    (
        lambda a: a.decode and a.pp and not _megatron(a),
        "there is a program for decoding on one GPU, and one for training a pipeline",
        {"pp": False},
    ),
]


def recommend(answers: Answers) -> Recommendation:
    """Return the program to begin with.

    Raises:
        SkillError: the answers contradict each other, or one is none that there is.
    """
    answers = _checked(answers)
    branch = next(row for row in _FLOW if row.fits(answers))
    workflow = branch.workflow or ("manual" if _by_hand(answers) else "manual-over-compile")
    options, left_out = _fitted(_options(workflow, answers, branch.shape))
    measured = answers.busy is not None or workflow == "profile"
    first = () if measured else (Candidate(_options("profile", answers), _UNSURE),)
    return Recommendation(
        options,
        branch.why + ("" if branch.workflow else _HOW[workflow]),
        (*_assumed(answers, options), *_remarks(answers, options), *left_out),
        (*_instead(options, answers), *first),
        QUESTIONS if answers == Answers() else {},
    )


def framework(text: str) -> str:
    """Return one of FRAMEWORKS, also where it was typed in another way.

    Raises:
        SkillError: there is no such framework here.
    """
    name = re.sub(r"[\s_.]+", "-", text.strip().lower())
    name = _ALSO.get(name, name)
    if name in FRAMEWORKS:
        return name
    raise SkillError(
        f"skill recommend: `--framework {quoted(text)}`: {_nearest(name, [*FRAMEWORKS, *_ALSO])}{', '.join(FRAMEWORKS)}"
    )


def asked(answers: Answers) -> str:
    """Return the arguments of `skill recommend` that say this."""
    return " ".join(_words(answers))


def _words(answers: Answers) -> list[str]:
    words = []
    for name, value in answers._asdict().items():
        option = f"--{name.replace('_', '-')}"
        if name == "training" and value is not None:
            words.append("--training" if value else "--inference")
        elif value is True:
            words.append(option)
        elif value not in (None, "", False):
            words.append(f"{option} {value:g}" if isinstance(value, float) else f"{option} {value}")
    return words


def _checked(answers: Answers) -> Answers:
    if answers.framework:
        answers = answers._replace(framework=framework(answers.framework))
    if answers.shapes and answers.shapes not in KINDS:
        raise SkillError(
            f"skill recommend: `--shapes {quoted(answers.shapes)}`: {_nearest(answers.shapes, KINDS)}{', '.join(KINDS)}"
        )
    if answers.amp not in ("", "bf16", "fp16"):
        raise SkillError(f"skill recommend: `--amp {quoted(answers.amp)}`: {_nearest(answers.amp, ('bf16', 'fp16'))}bf16, fp16")
    if answers.busy is not None and not 0 <= answers.busy <= 100:
        raise SkillError(f"skill recommend: `--busy {answers.busy:g}`: a share of the step in percent lies between 0 and 100")
    for clash, reason, instead in _CLASHES:
        if clash(answers):
            near = _agreeing(answers._replace(**instead))
            raise SkillError(f"skill recommend: `{asked(answers)}`: {reason}; nearest: `skill recommend {asked(near)}`")
    return answers


def _agreeing(answers: Answers) -> Answers:
    """Return the same without what clashes."""
    for clash, _, instead in _CLASHES:
        if clash(answers):
            answers = answers._replace(**instead)
    return answers


def _nearest(text: str, known: Any) -> str:
    near = difflib.get_close_matches(text, known, 1)
    return f"did you mean {near[0]}? there are " if near else "there are "


def _options(workflow: str, a: Answers, shape: str = "") -> Options:
    """Return what was asked for, as options of `skill scaffold`."""
    if workflow == "profile":
        return Options(workflow, _trains(a), a.amp)
    trains = _trains(a) or workflow in ("transformer-engine", "mcore-per-layer", "mcore-full-iteration")
    new = Options(workflow, trains, amp=a.amp, ddp=a.ddp, fsdp=a.fsdp, fp8=a.fp8)
    if not shape and not trains:
        shape = "decode" if a.decode else "buckets" if a.shapes == "buckets" else ""
    chosen: dict[str, Any] = {shape: True} if shape else {}
    return new._replace(**chosen)


def _fitted(options: Options) -> tuple[Options, list[str]]:
    """Return the options without what the program cannot have, and why it cannot."""
    notes = []
    for _ in RULES:
        rule = broken(options)
        if rule is None:
            break
        fitted = options._replace(**rule.instead)
        changed = {name: value for name, value in fitted._asdict().items() if value != getattr(options, name)}
        words = [f"`--{name} {value}`" if value else f"without `--{name}`" for name, value in changed.items()]
        notes.append(f"{', '.join(words)}: {rule.reason}")
        options = fitted
    return options, notes


def _instead(chosen: Options, answers: Answers) -> list[Candidate]:
    candidates: list[Candidate] = []
    if (answers.busy or 0) > BUSY:
        return candidates
    # What an inference program by hand is built around does not change with the way in which it is captured.
    same = next((option for option in SHAPES if chosen.workflow in BY_HAND and getattr(chosen, option)), "")
    for other in _OTHERS[chosen.workflow]:
        shape = "partial" if other.partial else same
        options, _ = _fitted(_options(other.workflow, answers, shape))
        is_one = options.workflow == other.workflow and broken(options) is None
        if other.fits(answers) and is_one:
            candidates.append(Candidate(options, other.when))
    return candidates


def _assumed(a: Answers, options: Options) -> list[str]:
    """Return what was taken for granted, or is not as it was asked for."""
    notes: list[str] = []
    if options.workflow == "profile":
        return notes
    taken = []
    if options.workflow in PLAIN and not a.framework:
        taken.append("plain PyTorch (`--framework`)")
    if a.training is None and not a.decode:
        taken.append("training (`--inference`)" if options.training else "inference (`--training`)")
    if not a.shapes and not a.decode and options.workflow != "reduce-overhead":
        taken.append("static shapes (`--shapes`)")
    if taken:
        notes.append(f"taken for {', '.join(taken)}: say otherwise with the option")
    if a.framework == "megatron-bridge":
        notes.append("in Megatron-Bridge the same is set as cfg.model.cuda_graph_impl (references/api-megatron-bridge.md)")
    return notes


def _remarks(a: Answers, options: Options) -> list[str]:
    """Return what becomes of the answers that the program does not simply have."""
    notes = []
    for remark in _REMARKS:
        about = Answers(**{name: getattr(a, name) for name in remark.on})
        if about != Answers() and remark.fits(a, options):
            notes.append(f"{', '.join(f'`{word}`' for word in _words(about))}: {remark.text}")
    return notes
