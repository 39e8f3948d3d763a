"""The constraints of Megatron-Core: what its configuration, its argument check and its graph classes refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.config import options
from cudagraph_skill.config.constraint import LEAVE_OUT, Change, Clash, constraint
from cudagraph_skill.config.releases import dotted
from cudagraph_skill.config.settings import Fixed, Form, Unread
from cudagraph_skill.config.setup import any_of

if TYPE_CHECKING:
    from cudagraph_skill.config.settings import Setting
    from cudagraph_skill.config.setup import Setup

_COMMAND_LINE = frozenset({Form.COMMAND_LINE})


# Which graphs


@constraint("old-switches-together")
def old_switches_together(setup: Setup) -> Clash | None:
    """The two switches from before 0.15 exclude one another."""
    if not (setup.value("enable_cuda_graph") and setup.value("external_cuda_graph")):
        return None
    both = f"{setup.spelled('enable_cuda_graph')} and {setup.spelled('external_cuda_graph')}"
    return Clash(
        f"{both} are both set, and cannot be enabled at the same time: the first asks for graphs of Megatron-Core (local), the "
        "second for graphs of Transformer Engine",
        ("external_cuda_graph", "enable_cuda_graph"),
        (Change("external_cuda_graph", LEAVE_OUT),),
    )


@constraint("old-switch-with-impl", since=(0, 15))
def old_switch_with_impl(setup: Setup) -> Clash | None:
    """An old switch may not stand beside `cuda_graph_impl`."""
    old = next((name for name in ("enable_cuda_graph", "external_cuda_graph") if setup.value(name)), None)
    if old is None or setup.value("cuda_graph_impl") in ("none", None):
        return None
    return Clash(
        f"{setup.spelled(old)} and {setup.spelled('cuda_graph_impl')} are both set: the old switch may not be used with the new one",
        (old, "cuda_graph_impl"),
        (Change(old, LEAVE_OUT),),
    )


@constraint("graph-impl-unknown", since=(0, 15))
def graph_impl_unknown(setup: Setup) -> Clash | None:
    """`cuda_graph_impl` names one of the ways to make graphs that the release has."""
    written = setup.setting("cuda_graph_impl")
    value = str(setup.value("cuda_graph_impl")) if written else "none"
    known = options.implementations(setup.core)
    if value in known:
        return None
    spelled = setup.spelled("cuda_graph_impl")
    if value == "full_iteration":
        return Clash(
            f"{spelled} is full_iteration, an invalid CUDA graph implementation before megatron-core 0.18: "
            f"{dotted(setup.core)} has {', '.join(known)}",
            ("cuda_graph_impl",),
            (Change("cuda_graph_impl", "local"), Change("cuda_graph_scope", ["full_iteration"])),
        )
    said = "is given without a value" if written and written.value is None else f"is {value}, an invalid choice"
    message = f"{spelled} {said}: megatron-core {dotted(setup.core)} has {', '.join(known)}"
    return Clash(message, ("cuda_graph_impl",), (), "name one of these")


@constraint("graph-module-unknown")
def graph_module_unknown(setup: Setup) -> Clash | None:
    """The captured modules are names that the release knows, in the form that it reads."""
    names = [name for name in ("cuda_graph_scope", "cuda_graph_modules") if setup.core >= options.LIVES[name].since]
    settings = [setting for name in names if (setting := setup.setting(name)) is not None]
    if setup.core < (0, 16) and setup.form is not Form.COMMAND_LINE and setup.implementation != "transformer_engine":
        return None  # nothing looks at the names there
    if setup.clears_modules:
        return None
    clashes = (_unknown_module(setup, setting, setup.module_names(setting)) for setting in settings)
    return next((clash for clash in clashes if clash), None)


def _unknown_module(setup: Setup, setting: Setting, written: list[str]) -> Clash | None:
    if isinstance(setting.value, Fixed):
        message = f"{setting.written} is a tuple, an invalid value: the packages take a list of modules, or a text with commas"
        return Clash(message, (setting.name,), (Change(setting.name, written),))
    known = options.modules(setup.core)
    if setup.form is Form.COMMAND_LINE and not setting.value:
        message = f"{setting.written} is given without a module: the parser expected at least one argument"
        return Clash(message, (setting.name,), (Change(setting.name, LEAVE_OUT),))
    unknown = [name for name in written if name not in known]
    if setup.core < (0, 16) and len(written) > 1:
        return Clash(
            f"{setting.written} has {len(written)} values, {', '.join(written)}; megatron-core {dotted(setup.core)} takes one of "
            f"{', '.join(known)}",
            (setting.name,),
            (),
            "name one of these; several modules need megatron-core 0.16",
        )
    if not unknown:
        return None
    if setup.form is Form.COMMAND_LINE and all(part in known for part in _parts(unknown[0])):
        return Clash(
            f"{setting.written} is `{unknown[0]}`, an invalid value: the command line takes the modules as separate words",
            (setting.name,),
            (Change(setting.name, [part for name in written for part in _parts(name)]),),
        )
    message = (
        f"{setting.written} names `{unknown[0]}`, an invalid value: megatron-core {dotted(setup.core)} knows {', '.join(known)}"
    )
    left = [name for name in written if name in known]
    return Clash(message, (setting.name,), (Change(setting.name, left),) if left else (), "" if left else "name one of these")


def _parts(name: str) -> list[str]:
    return name.replace(",", " ").split()


@constraint("full-scope-with-modules", since=(0, 16))
def full_scope_with_modules(setup: Setup) -> Clash | None:
    """`full` captures whole layers and stands alone."""
    setting = setup.modules_setting
    if setting is None or "full" not in setup.written_modules or len(setup.written_modules) == 1:
        return None
    left = [name for name in setup.written_modules if name != "full"]
    message = f"{setting.written} has full together with {', '.join(left)}: the full scope cannot be used with other scopes"
    return Clash(message, (setting.name,), (Change(setting.name, left),))


@constraint("scope-and-modules", since=(0, 18))
def scope_and_modules(setup: Setup) -> Clash | None:
    """The old and the new name of the captured modules exclude one another."""
    scope, modules = setup.setting("cuda_graph_scope"), setup.setting("cuda_graph_modules")
    if setup.clears_modules or scope is None or modules is None or scope.value is None or modules.value in ([], None, "full"):
        return None
    return Clash(
        f"{scope.written} and {modules.written} are both set and cannot be set together: one is the old name of the other",
        ("cuda_graph_scope", "cuda_graph_modules"),
        (Change("cuda_graph_scope", LEAVE_OUT),),
    )


@constraint("whole-iteration-needs-local", until=(0, 18))
def whole_iteration_needs_local(setup: Setup) -> Clash | None:
    """Up to 0.17 the graph of a whole iteration is made by the local implementation."""
    if setup.implementation != "transformer_engine" or "full_iteration" not in setup.written_modules:
        return None
    if setup.value("enable_cuda_graph"):
        return None  # both switches: its own constraint
    assert setup.modules_setting is not None
    wanted = Change("cuda_graph_impl", "local") if setup.core >= (0, 15) else Change("enable_cuda_graph", True)
    old = (Change("external_cuda_graph", LEAVE_OUT),) if setup.value("external_cuda_graph") else ()
    return Clash(
        f"{setup.modules_setting.written} is full_iteration with {setup.switch}: to use full iteration "
        f"graphs, megatron-core {dotted(setup.core)} needs the local implementation",
        (setup.modules_setting.name, "cuda_graph_impl"),
        (*old, wanted),
    )


@constraint("old-scope-value-with-impl", since=(0, 18))
def old_scope_value_with_impl(setup: Setup) -> Clash | None:
    """The old values `full_iteration` and `full_iteration_inference` fit some implementations only."""
    written = str(setup.value("cuda_graph_impl") or "none")
    fits = {"full_iteration": ("none", "local", "full_iteration"), "full_iteration_inference": ("none", "local")}
    old = [name for name in setup.written_modules if name in fits]
    setting = setup.modules_setting
    if not old or setting is None:
        return None
    if len(set(old)) > 1:
        message = f"{setting.written} has multiple deprecated values, {', '.join(old)}: only one of them can be carried over"
        return Clash(message, (setting.name,), (), "use cuda_graph_impl and inference_cuda_graph_scope in their place")
    implementation = "transformer_engine" if written == "none" and setup.value("external_cuda_graph") else written
    if implementation in fits[old[0]]:
        return None
    inference = old[0] == "full_iteration_inference"
    wanted = [Change("cuda_graph_impl", "local" if inference else "full_iteration")]
    wanted += [Change("inference_cuda_graph_scope", "block")] if inference else []
    switch = "cuda_graph_impl" if written != "none" else "external_cuda_graph"
    wanted += [Change(switch, LEAVE_OUT)] if switch == "external_cuda_graph" else []
    return Clash(
        f"{setting.written} {old[0]} cannot be combined with {setup.spelled('cuda_graph_impl')} {implementation}",
        (setting.name, switch),
        (*wanted, Change(setting.name, [name for name in setup.written_modules if name != old[0]] or LEAVE_OUT)),
        "or leave the value out, which keeps the graphs of training" if inference else "",
    )


@constraint("old-scope-value-with-inference-scope", since=(0, 18))
def old_scope_value_with_inference_scope(setup: Setup) -> Clash | None:
    """An old value decides the inference scope itself."""
    scope = setup.value("inference_cuda_graph_scope")
    fits = {"full_iteration": (None, "none"), "full_iteration_inference": (None, "block")}
    old = next((name for name in setup.written_modules if name in fits), None)
    setting = setup.modules_setting
    if old is None or setting is None or scope in fits[old]:
        return None
    return Clash(
        f"{setting.written} {old} cannot be combined with {setup.spelled('inference_cuda_graph_scope')} {scope}",
        (setting.name, "inference_cuda_graph_scope"),
        (Change("inference_cuda_graph_scope", LEAVE_OUT),),
    )


@constraint("inference-scope-with-impl", since=(0, 18))
def inference_scope_with_impl(setup: Setup) -> Clash | None:
    """Only the local implementation makes inference graphs, of layers or of the block."""
    allowed = options.INFERENCE_SCOPES.get(setup.implementation)
    if allowed is None or setup.setting("inference_cuda_graph_scope") is None or setup.inference_scope in allowed:
        return None
    if {"full_iteration", "full_iteration_inference"} & set(setup.written_modules):
        return None  # its own constraint
    return Clash(
        f"{setup.spelled('inference_cuda_graph_scope')} is {setup.inference_scope}, an invalid inference CUDA graph scope for "
        f"{setup.spelled('cuda_graph_impl')} {setup.implementation}, which takes {' or '.join(allowed)}",
        ("inference_cuda_graph_scope", "cuda_graph_impl"),
        (Change("inference_cuda_graph_scope", allowed[0] if setup.implementation == "local" else LEAVE_OUT),),
    )


@constraint("whole-iteration-with-modules", since=(0, 18))
def whole_iteration_with_modules(setup: Setup) -> Clash | None:
    """A graph of the whole iteration has no list of modules."""
    if not setup.whole_iteration or not setup.modules:
        return None
    assert setup.modules_setting is not None
    name = setup.modules_setting.name
    return Clash(
        f"{setup.modules_setting.written} names {', '.join(setup.modules)} and must be empty when one graph holds the whole "
        f"iteration ({setup.spelled('cuda_graph_impl')} full_iteration)",
        (name, "cuda_graph_impl"),
        (Change(name, LEAVE_OUT),),
    )


# The step around the graph


@constraint("nan-check-in-whole-iteration", forms=_COMMAND_LINE)
def nan_check_in_whole_iteration(setup: Setup) -> Clash | None:
    """The check of the loss for NaN reads a value on the host, which a captured iteration cannot."""
    inference = setup.core < (0, 17) and setup.core >= (0, 15) and setup.value("inference_dynamic_batching")
    if not setup.whole_iteration or not setup.nan_check or inference:
        return None
    return Clash(
        "the check for NaN in loss and gradients is on, and cannot read them inside a full_iteration graph: "
        "--no-check-for-nan-in-loss-and-grad should be set",
        ("check_for_nan_in_loss_and_grad", "cuda_graph_impl"),
        (Change("check_for_nan_in_loss_and_grad", False),),
    )


@constraint("expandable-segments")
def expandable_segments(setup: Setup) -> Clash | None:
    """NCCL registers buffers of captured collectives; with expandable segments their addresses do not stay."""
    if setup.implementation == "none" or not setup.expandable_segments:
        return None
    seen = "PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True"
    if setup.core < (0, 16):
        command_line = setup.form is Form.COMMAND_LINE and setup.implementation == "transformer_engine"
        if setup.core < (0, 15) and not command_line and not setup.per_layer:
            return None
        message = (
            f"{seen}, which megatron-core {dotted(setup.core)} refuses with CUDA graphs ({setup.switch}) whatever "
            "NCCL_GRAPH_REGISTER is"
        )
        return Clash(message, ("cuda_graph_impl",), (without_expandable_segments(setup),))
    if not _registers_buffers(setup) or setup.variable("NCCL_GRAPH_REGISTER") == "0":
        return None
    which = "graphs of transformer_engine" if setup.implementation == "transformer_engine" else "local graphs below sm_100"
    message = f"{seen} and NCCL_GRAPH_REGISTER is not 0: {which} ({setup.switch}) would read freed memory at replay"
    return Clash(message, ("cuda_graph_impl",), (Change("NCCL_GRAPH_REGISTER", "0", variable=True),))


def without_expandable_segments(setup: Setup) -> Change:
    """Return the change that switches expandable segments off, and keeps the other options of the allocator."""
    options_now = setup.variables.get("PYTORCH_CUDA_ALLOC_CONF", "")
    written = options_now.text if isinstance(options_now, Unread) else options_now
    changed = written.replace("expandable_segments:True", "expandable_segments:False")
    return Change("PYTORCH_CUDA_ALLOC_CONF", changed, variable=True)


def _registers_buffers(setup: Setup) -> bool:
    if setup.implementation == "transformer_engine":
        return True
    if setup.implementation != "local" or setup.whole_iteration or setup.core >= (0, 19):
        return False
    return setup.below_blackwell("expandable segments with local graphs need NCCL_GRAPH_REGISTER=0 below sm_100")


@constraint("cpu-offloading")
def cpu_offloading(setup: Setup) -> Clash | None:
    """Offloading copies the activations of layers to the host, which goes with a graph of the whole iteration only."""
    name = "cpu_offloading_num_layers" if setup.form is Form.COMMAND_LINE else "cpu_offloading"
    if setup.implementation == "none":
        return None
    if (setup.core < (0, 15) and not setup.value("enable_cuda_graph")) or (setup.core >= (0, 18) and setup.whole_iteration):
        return None
    if not setup.number(name):
        return None
    but = "" if setup.core < (0, 18) else ", except with full_iteration"
    return Clash(
        f"{setup.spelled(name)} and {setup.switch} are set: CUDA graphs are not supported with CPU offloading{but}",
        (name, "cuda_graph_impl"),
        (Change(name, LEAVE_OUT),),
    )


# Recompute


@constraint("recompute-any", until=(0, 16))
def recompute_any(setup: Setup) -> Clash | None:
    """0.15 takes graphs and recompute of activations together in one case only, 0.14 with the graphs of Transformer Engine."""
    if not setup.recompute or setup.implementation == "none":
        return None
    seen = f"{setup.spelled('recompute_granularity')} is {setup.recompute} with {setup.switch}"
    reason = _recompute_in_0_14(setup) if setup.core < (0, 15) else _recompute_in_0_15(setup)
    if reason:
        named = ("recompute_granularity", "cuda_graph_impl")
        return Clash(f"{seen}{reason}", named, (Change("recompute_granularity", LEAVE_OUT),))
    if setup.core < (0, 15):
        return None
    inside = next((name for name in setup.recomputed if name in ("core_attn", "mla_up_proj")), None)
    if inside is None:
        return None
    left = [name for name in setup.recomputed if name not in ("core_attn", "mla_up_proj")]
    return Clash(
        f"{inside} is recomputed inside the graph ({setup.spelled('recompute_granularity')}, {setup.switch}): the attn CUDA graph is not supported with {inside} recompute",
        ("recompute_modules", "recompute_granularity"),
        (Change("recompute_modules", left),) if left else (Change("recompute_granularity", LEAVE_OUT),),
    )


def _recompute_in_0_14(setup: Setup) -> str:
    if setup.value("enable_cuda_graph"):
        return ": CUDA graphs are not supported with activation recomputation"
    if setup.recompute == "full" and setup.form is Form.COMMAND_LINE:
        return ", and must not be full when CUDA graphs are enabled"
    return ""


def _recompute_in_0_15(setup: Setup) -> str:
    if setup.recompute == "selective" and setup.implementation == "transformer_engine" and setup.written_modules == ["attn"]:
        return ""
    return (
        f": megatron-core {dotted(setup.core)} supports CUDA graphs with activation recomputation only where it is selective, with "
        "transformer_engine and scope attn"
    )


@constraint("full-recompute", since=(0, 16))
def full_recompute(setup: Setup) -> Clash | None:
    """Layers that are recomputed as a whole go with a graph of the whole iteration only."""
    if setup.implementation == "none" or setup.recompute in ("", "selective"):
        return None
    alone = setup.whole_iteration if setup.core >= (0, 18) else setup.written_modules == ["full_iteration"]
    if alone:
        return None
    return Clash(
        f"{setup.spelled('recompute_granularity')} is {setup.recompute} with {setup.switch}: full recompute is only supported with a full iteration "
        "CUDA graph",
        ("recompute_granularity", "cuda_graph_impl"),
        (
            Change("recompute_granularity", "selective"),
            Change("recompute_method", LEAVE_OUT),
            Change("recompute_num_layers", LEAVE_OUT),
        ),
        "or capture the whole iteration",
    )


@constraint("moe-recompute-over-router", since=(0, 16))
def moe_recompute_over_router(setup: Setup) -> Clash | None:
    """Recompute may not cover a captured part."""
    if setup.implementation != "transformer_engine" or "moe_router" not in setup.modules:
        return None
    if any_of(lambda: setup.recompute != "selective", lambda: "moe" not in setup.recomputed):
        return None
    left = [name for name in setup.recomputed if name != "moe"]
    return Clash(
        f"{setup.spelled('recompute_modules')} has moe and {_list(setup)} has moe_router: moe recompute is not supported with a moe_router CUDA graph of "
        "transformer_engine",
        ("recompute_modules", "cuda_graph_modules"),
        (Change("recompute_modules", left or ["layernorm"]),),
    )


@constraint("attention-dropout-recomputed", since=(0, 16))
def attention_dropout_recomputed(setup: Setup) -> Clash | None:
    """A captured recompute cannot set the generator back to draw the same mask."""
    return _dropout_recomputed(setup, "attention_dropout", "attention dropout", (("attn", "core_attn"),))


@constraint("hidden-dropout-recomputed", since=(0, 16))
def hidden_dropout_recomputed(setup: Setup) -> Clash | None:
    """The same for the dropout behind MLP and experts."""
    return _dropout_recomputed(setup, "hidden_dropout", "hidden dropout", (("mlp", "mlp"), ("moe", "moe")))


def _dropout_recomputed(setup: Setup, name: str, what: str, pairs: tuple[tuple[str, str], ...]) -> Clash | None:
    if setup.implementation == "none":
        return None

    def inside() -> list[str]:
        return [again for module, again in pairs if _holds(setup, module) and again in setup.recomputed]

    if any_of(lambda: setup.number(name) == 0, lambda: setup.recompute != "selective", lambda: not inside()):
        return None
    default = "" if setup.setting(name) else " by default"
    return Clash(
        f"{setup.spelled(name)} is {setup.value(name)}{default} and {inside()[0]} is recomputed inside the graph "
        f"({_recompute_and_graph(setup)}): {what} is not supported with graphed recomputation",
        (name, "recompute_modules", "recompute_granularity"),
        (Change(name, 0.0),),
    )


def _list(setup: Setup) -> str:
    """Spell the list of captured modules."""
    return setup.modules_setting.written if setup.modules_setting else setup.switch


def _recompute_and_graph(setup: Setup) -> str:
    """Spell what recomputes modules, and what captures them."""
    again = "recompute_modules" if setup.setting("recompute_modules") else "recompute_granularity"
    again = "recompute_activations" if setup.setting("recompute_activations") else again
    return f"{setup.spelled(again)}, {_list(setup)}"


def _holds(setup: Setup, module: str) -> bool:
    """Return whether a graph holds a module: it is named, or whole layers or iterations are captured."""
    return setup.whole_iteration or not setup.modules or module in setup.modules


@constraint("jitter-recomputed", since=(0, 16))
def jitter_recomputed(setup: Setup) -> Clash | None:
    """Noise on the input of experts is random as dropout is."""
    if setup.implementation == "none" or not _holds(setup, "moe"):
        return None
    if any_of(
        lambda: setup.value("moe_input_jitter_eps") is None,
        lambda: setup.recompute != "selective",
        lambda: "moe" not in setup.recomputed,
    ):
        return None
    return Clash(
        f"{setup.spelled('moe_input_jitter_eps')} is set and moe is recomputed inside the graph ({_recompute_and_graph(setup)}): moe_input_jitter_eps is not "
        "supported with graphed moe recomputation",
        ("moe_input_jitter_eps", "recompute_modules"),
        (Change("moe_input_jitter_eps", LEAVE_OUT),),
    )
