"""The constraints of Megatron-Core on graphs together with experts, overlap and offloading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.config.constraint import LEAVE_OUT, Change, Clash, constraint
from cudagraph_skill.config.constraints_core import without_expandable_segments
from cudagraph_skill.config.settings import Form
from cudagraph_skill.config.setup import any_of

if TYPE_CHECKING:
    from cudagraph_skill.config.setup import Setup

_COMMAND_LINE = frozenset({Form.COMMAND_LINE})
_OFFLOADED_WITH_LOCAL = ("expert_fc1", "moe_act", "fused_group_mlp")


def _modules_change(setup: Setup, left: list[str]) -> tuple[Change, ...]:
    """Return the change that leaves these captured modules."""
    setting = setup.modules_setting
    if setting is None:
        return ()
    if left:
        return (Change(setting.name, left),)
    switch = next((name for name in ("enable_cuda_graph", "external_cuda_graph") if setup.setting(name)), "cuda_graph_impl")
    return (Change(switch, "none" if switch == "cuda_graph_impl" else LEAVE_OUT), Change(setting.name, LEAVE_OUT))


def _without(setup: Setup, *names: str) -> tuple[Change, ...]:
    return _modules_change(setup, [name for name in setup.written_modules if name not in names])


def _list_name(setup: Setup) -> str:
    return setup.modules_setting.written if setup.modules_setting else setup.spelled("cuda_graph_scope")


# Experts


@constraint("moe-and-moe-router", since=(0, 16))
def moe_and_moe_router(setup: Setup) -> Clash | None:
    """`moe` captures the layer that `moe_router` captures the start of."""
    if not setup.checks_modules or not {"moe", "moe_router"} <= set(setup.modules):
        return None
    return Clash(
        f"{_list_name(setup)} must not contain both moe and moe_router: the first captures what the second is a part of",
        ("cuda_graph_modules", "cuda_graph_scope"),
        _without(setup, "moe"),
    )


@constraint("moe-preprocess-without-router", since=(0, 16))
def moe_preprocess_without_router(setup: Setup) -> Clash | None:
    """Preprocessing begins with what the router gives."""
    if setup.implementation != "transformer_engine" or "moe_preprocess" not in setup.modules or "moe_router" in setup.modules:
        return None
    assert setup.modules_setting is not None
    return Clash(
        f"{_list_name(setup)} has moe_preprocess without moe_router: a moe_preprocess CUDA graph is only supported with a "
        "moe_router CUDA graph",
        ("cuda_graph_modules", "cuda_graph_scope"),
        (Change(setup.modules_setting.name, [*setup.written_modules, "moe_router"]),),
    )


@constraint("moe-module-in-dense-model", since=(0, 16))
def moe_module_in_dense_model(setup: Setup) -> Clash | None:
    """Modules of experts need layers with experts."""
    named = [name for name in ("moe", "moe_router") if name in setup.modules]
    if not setup.checks_modules or not named or setup.experts:
        return None
    return Clash(
        f"{_list_name(setup)} has {named[0]}, but the model has no experts ({setup.spelled('num_moe_experts')} is "
        f"{setup.value('num_moe_experts')}): a moe CUDA graph is only supported for MoE",
        ("cuda_graph_modules", "cuda_graph_scope"),
        _without(setup, "moe", "moe_router", "moe_preprocess"),
    )


@constraint("mlp-without-dense-layer", since=(0, 16))
def mlp_without_dense_layer(setup: Setup) -> Clash | None:
    """`mlp` captures the MLP of layers without experts."""
    if not setup.checks_modules or "mlp" not in setup.modules or not setup.experts or setup.dense_layers:
        return None
    return Clash(
        f"{_list_name(setup)} has mlp, but every layer has experts ({setup.spelled('num_moe_experts')}, "
        f"{setup.spelled('moe_layer_freq')}): an mlp CUDA graph is only supported for dense layers",
        ("cuda_graph_modules", "cuda_graph_scope", "moe_layer_freq"),
        _without(setup, "mlp"),
    )


@constraint("moe-without-drop-and-pad", since=(0, 16))
def moe_without_drop_and_pad(setup: Setup) -> Clash | None:
    """Without dropping and padding the number of tokens of an expert changes from step to step."""
    if not setup.checks_modules or "moe" not in setup.modules or setup.drop_and_pad:
        return None
    if setup.form is not Form.RECIPE and not setup.experts:
        return None  # its own constraint
    others = [name for name in setup.written_modules if name not in ("moe", "moe_router", "moe_preprocess")]
    return Clash(
        f"{_list_name(setup)} has moe, but experts take any number of tokens: a moe CUDA graph is only supported with "
        f"drop-padding MoE, {setup.spelled('moe_expert_capacity_factor')} and "
        f"{setup.spelled('moe_pad_expert_input_to_capacity')}",
        ("cuda_graph_modules", "cuda_graph_scope", "moe_expert_capacity_factor"),
        _modules_change(setup, [*others, "moe_router", "moe_preprocess"]),
        "or set moe_expert_capacity_factor and moe_pad_expert_input_to_capacity",
    )


@constraint("moe-preprocess-synchronizes", since=(0, 16))
def moe_preprocess_synchronizes(setup: Setup) -> Clash | None:
    """The alltoall dispatcher reads counts on the host where it has to drop or pad."""
    if not setup.checks_modules or "moe_preprocess" not in setup.modules or not setup.experts or setup.drop_and_pad:
        return None
    reasons = ("moe_expert_capacity_factor", "moe_router_padding_for_fp8", "moe_router_padding_for_quantization")
    reason = next((name for name in reasons if setup.value(name) not in (None, False)), None)
    if setup.value("moe_token_dispatcher_type") != "alltoall" or reason is None:
        return None
    return Clash(
        f"{setup.spelled(reason)} is set with the alltoall dispatcher, and {_list_name(setup)} has moe_preprocess: a moe_preprocess CUDA graph is not supported when there "
        "are DtoH copies and synchronizations in the preprocess step",
        ("cuda_graph_modules", "cuda_graph_scope", reason),
        _without(setup, "moe_preprocess", *(["moe_router"] if setup.implementation == "local" else [])),  # local adds it again
    )


# Overlap and delayed weight gradients


@constraint("expert-overlap", since=(0, 16))
def expert_overlap(setup: Setup) -> Clash | None:
    """The overlap of expert communication cuts the layer inside of its MLP."""
    if setup.implementation == "none" or not setup.overlaps_experts:
        return None
    written = setup.spelled(setup.overlaps_experts)
    if setup.implementation != "transformer_engine":
        if setup.core >= (0, 18):
            return None
        left = [name for name in setup.written_modules if name not in ("full", "full_iteration", "moe", "mlp")]
        return Clash(
            f"{written} is set: megatron-core before 0.18 supports overlap_moe_expert_parallel_comm with CUDA graphs of "
            "transformer_engine only, with a scope of neither moe nor mlp",
            (setup.overlaps_experts, "cuda_graph_impl"),
            (Change("cuda_graph_impl", "transformer_engine"), Change(_list_field(setup), left or ["attn"])),
        )
    inside = [name for name in ("moe", "mlp") if name in setup.modules]
    if not inside:
        return None
    return Clash(
        f"{_list_name(setup)} has {' and '.join(inside)}: a CUDA graph scope on moe and mlp is not supported with {written}",
        ("cuda_graph_modules", "cuda_graph_scope", setup.overlaps_experts),
        _without(setup, *inside),
    )


@constraint("expert-overlap-whole-layer", since=(0, 16))
def expert_overlap_whole_layer(setup: Setup) -> Clash | None:
    """The overlapped schedule replays the attention part of a layer alone; a graph of the whole layer has no such part."""
    name = next(
        (
            name
            for name in ("overlap_moe_expert_parallel_comm", "comm_overlap.overlap_moe_expert_parallel_comm")
            if setup.value(name)
        ),
        "",
    )
    if not name or setup.implementation != "transformer_engine" or setup.modules or setup.written_modules not in ([], ["full"]):
        return None
    listed = _list_field(setup)
    return Clash(
        f"{setup.spelled(name)} is set and the graphs of {setup.spelled('cuda_graph_impl')} transformer_engine hold whole layers, as no "
        f"{setup.spelled(listed)} is named: EP overlap must be disabled when a CUDA graph captures the whole MLP/MoE part",
        (name, "cuda_graph_impl"),
        (Change(listed, ["attn", "moe_router"] if setup.experts else ["attn"]),),
    )


def _list_field(setup: Setup) -> str:
    default = "cuda_graph_modules" if setup.core >= (0, 18) else "cuda_graph_scope"
    return setup.modules_setting.name if setup.modules_setting else default


@constraint("delayed-wgrad-without-overlap")
def delayed_wgrad_without_overlap(setup: Setup) -> Clash | None:
    """Weight gradients are delayed so that the communication of experts can overlap them."""
    if not setup.delays_wgrad or setup.overlaps_experts:
        return None
    return Clash(
        f"{setup.spelled(setup.delays_wgrad)} is set: overlap_moe_expert_parallel_comm must be enabled when enabling it",
        (setup.delays_wgrad,),
        (Change(setup.delays_wgrad, LEAVE_OUT),),
        "or overlap the communication of experts, with expert parallelism",
    )


@constraint("delayed-wgrad-engine", since=(0, 16))
def delayed_wgrad_engine(setup: Setup) -> Clash | None:
    """Weight gradients that are computed later are captured in graphs of their own since Transformer Engine 2.10."""
    if not setup.delays_wgrad or setup.implementation != "transformer_engine":
        return None
    return _old_engine(setup, (2, 10))


@constraint("delayed-wgrad-in-graph-engine", since=(0, 17))
def delayed_wgrad_in_graph_engine(setup: Setup) -> Clash | None:
    """Where attention or shared experts are captured, their weight gradients are too, since Transformer Engine 2.12."""
    if not _checks_captured_wgrad(setup) or (setup.releases.engine or (9,)) < (2, 10):
        return None
    return _old_engine(setup, (2, 12))


def _old_engine(setup: Setup, least: tuple[int, int]) -> Clash | None:
    if setup.releases.engine is None or setup.releases.engine >= least:
        return None
    needed = ".".join(map(str, least))
    found = ".".join(map(str, setup.releases.engine))
    return Clash(
        f"{setup.spelled(setup.delays_wgrad)} with CUDA graphs requires TE version >= {needed}.0 (transformer-engine); this is {found}",
        (setup.delays_wgrad, "cuda_graph_impl"),
        (Change(setup.delays_wgrad, LEAVE_OUT),),
        f"or install transformer-engine {needed}",
    )


@constraint("delayed-wgrad-without-fusion", since=(0, 17))
def delayed_wgrad_without_fusion(setup: Setup) -> Clash | None:
    """Gradients that are not accumulated in place get a new address at each step."""
    if not _checks_captured_wgrad(setup) or setup.value("gradient_accumulation_fusion"):
        return None
    return Clash(
        f"{setup.spelled(setup.delays_wgrad)} captures weight gradients, and {setup.spelled('gradient_accumulation_fusion')} "
        "leaves them without fixed addresses: it requires gradient_accumulation_fusion",
        ("gradient_accumulation_fusion", setup.delays_wgrad),
        (Change("gradient_accumulation_fusion", True),),
    )


@constraint("delayed-wgrad-with-bias", since=(0, 17))
def delayed_wgrad_with_bias(setup: Setup) -> Clash | None:
    """An attention bias is refused where attention is captured."""
    if not _checks_captured_wgrad(setup) or "attn" not in _captured_where_checked(setup):
        return None
    bias = next((name for name in ("add_bias_linear", "add_qkv_bias") if setup.value(name)), None)
    if bias is None:
        return None
    default = "" if setup.setting(bias) else " by default"
    return Clash(
        f"{bias} is on{default} and {setup.spelled(setup.delays_wgrad)} is set: a CUDA graph of attn with delayed weight gradients "
        "does not support an attention bias (attn bias)",
        (bias, setup.delays_wgrad),
        (Change(bias, False),),
    )


def _checks_captured_wgrad(setup: Setup) -> bool:
    """Return whether weight gradients are delayed and captured, in a configuration whose package looks for it.

    Megatron-LM looks only where gradients are reduced during backward, Bridge always, both even without graphs;
    TransformerConfig does not.
    """
    if not setup.delays_wgrad:
        return False
    if setup.form is Form.KEYWORDS or (setup.form is Form.COMMAND_LINE and not setup.value("overlap_grad_reduce")):
        return False
    if setup.form is Form.RECIPE and setup.delays_wgrad == "delay_wgrad_compute":
        return False  # Bridge looks at its own `comm_overlap`
    modules = _captured_where_checked(setup)
    if "attn" in modules:
        return True
    if "moe_router" not in modules:
        return False
    return setup.value("moe_shared_expert_intermediate_size") is not None and not setup.value("moe_shared_expert_overlap")


def _captured_where_checked(setup: Setup) -> list[str]:
    return setup.named_modules if setup.form is Form.RECIPE else setup.modules


@constraint("expert-overlap-with-fsdp", since=(0, 18))
def expert_overlap_with_fsdp(setup: Setup) -> Clash | None:
    """The overlapped schedule calls the parts of a layer one by one, and their parameters are gathered then."""
    sharded = setup.value("use_megatron_fsdp") or setup.value("ddp.use_megatron_fsdp")
    if not sharded or not setup.overlaps_experts or not setup.per_layer:
        return None
    return Clash(
        f"{setup.spelled(setup.overlaps_experts)} with Megatron-FSDP (use_megatron_fsdp): 1F1B overlap with FSDP does not "
        f"support per-layer CUDA graphs ({setup.implementation})",
        (setup.overlaps_experts, "cuda_graph_impl"),
        (
            Change("cuda_graph_impl", "full_iteration"),
            *([Change(setup.modules_setting.name, LEAVE_OUT)] if setup.modules_setting else []),
        ),
    )


@constraint("hybrid-context-parallel", since=(0, 16), forms=_COMMAND_LINE)
def hybrid_context_parallel(setup: Setup) -> Clash | None:
    """Sequences are spread anew at each step; only the old switch is checked."""
    if not setup.value("hybrid_context_parallel") or not setup.value("enable_cuda_graph"):
        return None
    return Clash(
        f"{setup.spelled('hybrid_context_parallel')} and {setup.spelled('enable_cuda_graph')} are both set: hybrid context "
        "parallelism is not supported with CUDA graphs",
        ("enable_cuda_graph", "hybrid_context_parallel"),
        (Change("enable_cuda_graph", LEAVE_OUT),),
    )


@constraint("weight-shards-without-node-priority", since=(0, 19), forms=_COMMAND_LINE)
def weight_shards_without_node_priority(setup: Setup) -> Clash | None:
    """From sm_100 on the gathers of weight shards run on streams of high priority, which a graph has to keep."""
    names = ("tensor_parallel_num_weight_shards", "expert_tensor_parallel_num_weight_shards")
    if setup.implementation == "none" or any_of(
        lambda: not any(setup.number(name) > 1 for name in names),
        lambda: setup.variable("CUDA_GRAPHS_USE_NODE_PRIORITY") == "1",
        lambda: setup.below_blackwell("weight shards need CUDA_GRAPHS_USE_NODE_PRIORITY=1 from sm_100 on"),
    ):
        return None
    return Clash(
        "weights are sharded (GTP) and CUDA_GRAPHS_USE_NODE_PRIORITY is not 1: GTP requires CUDA_GRAPHS_USE_NODE_PRIORITY=1 with "
        "CUDA graphs from sm_100 on",
        ("tensor_parallel_num_weight_shards", "cuda_graph_impl"),
        (Change("CUDA_GRAPHS_USE_NODE_PRIORITY", "1", variable=True),),
    )


@constraint("registered-buffers-with-expandable-segments")
def registered_buffers_with_expandable_segments(setup: Setup) -> Clash | None:
    """NCCL's registered buffers live in a memory pool, refused with expandable segments (since 0.18 before torch 2.11)."""
    registers = setup.value("nccl_ub") or setup.value("ddp.nccl_ub")
    if not registers or setup.core >= (0, 18) or not setup.expandable_segments:
        return None
    return Clash(
        f"{setup.spelled('nccl_ub')} is set and PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True, which is not supported with "
        "nccl_ub",
        ("nccl_ub",),
        (without_expandable_segments(setup),),
    )


@constraint("fused-cross-entropy-engine")
def fused_cross_entropy_engine(setup: Setup) -> Clash | None:
    """The fused loss of Transformer Engine can be captured since 2.7."""
    fused = setup.value("cross_entropy_loss_fusion") and setup.value("cross_entropy_fusion_impl") == "te"
    if not fused or not setup.whole_iteration or (setup.releases.engine or (9,)) >= (2, 7):
        return None
    return Clash(
        f"{setup.spelled('cross_entropy_fusion_impl')} is te: CUDA graph compatible cross entropy requires TransformerEngine >= 2.7.0",
        ("cross_entropy_fusion_impl", "cuda_graph_impl"),
        (Change("cross_entropy_fusion_impl", "native"),),
    )


@constraint("fused-cross-entropy-refused", since=(0, 18, 2), forms=frozenset((Form.COMMAND_LINE,)))
def fused_cross_entropy_refused(setup: Setup) -> Clash | None:
    """Megatron-LM's arguments refuse the fused loss of Transformer Engine since 0.18.2, with graphs and without."""
    fused = setup.value("cross_entropy_loss_fusion") and setup.value("cross_entropy_fusion_impl") == "te"
    if not fused:
        return None
    return Clash(
        f"{setup.spelled('cross_entropy_fusion_impl')} is te, which the arguments of this release refuse: Transformer Engine cross "
        "entropy loss fusion is disabled due to stability issues",
        ("cross_entropy_fusion_impl", "cross_entropy_loss_fusion"),
        (Change("cross_entropy_fusion_impl", "native"),),
    )


# Offloading of activations


@constraint("activation-offload-impl", since=(0, 18))
def activation_offload_impl(setup: Setup) -> Clash | None:
    """Local graphs hold the layers whose activations would be copied away."""
    if not setup.offloads or setup.implementation != "local":
        return None
    written = setup.spelled("fine_grained_activation_offloading")
    offloaded = setup.words("offload_modules")
    change = (Change("cuda_graph_impl", "transformer_engine"),)
    named = ("fine_grained_activation_offloading", "offload_modules", "cuda_graph_impl")
    if setup.core < (0, 19):
        message = f"{written} is set with {setup.switch}: fine-grained activation offloading is only supported with transformer_engine or full_iteration graphs"
        return Clash(message, named, change)
    refused = [name for name in offloaded if name not in _OFFLOADED_WITH_LOCAL]
    if refused:
        return Clash(
            f"{setup.spelled('offload_modules')} has {', '.join(refused)}: fine-grained activation offloading with local graphs only "
            f"supports {', '.join(_OFFLOADED_WITH_LOCAL)}",
            named,
            change,
        )
    if not setup.modules:
        message = f"{written} with local graphs of whole layers: fine-grained activation offloading is not supported with whole-layer CUDA graph capture"
        return Clash(message, named, change)
    if offloaded:
        return None
    message = (
        f"{written} with local graphs, and no {setup.spelled('offload_modules')}: it is supported for partial MoE offload only"
    )
    return Clash(message, named, change)


@constraint("activation-offload-moe", since=(0, 18))
def activation_offload_moe(setup: Setup) -> Clash | None:
    """Experts with a fixed number of tokens are not offloaded yet."""
    if not setup.offloads or setup.implementation == "none" or "moe" not in setup.modules:
        return None
    if setup.core < (0, 19) and setup.implementation == "local":
        return None  # its own constraint
    return Clash(
        f"{_list_name(setup)} has moe and {setup.spelled('fine_grained_activation_offloading')} is set: token-drop MoE is "
        "temporarily not supported with activation offloading",
        ("cuda_graph_modules", "cuda_graph_scope", "fine_grained_activation_offloading"),
        _without(setup, "moe"),
    )


@constraint("activation-offload-warmup", since=(0, 18))
def activation_offload_warmup(setup: Setup) -> Clash | None:
    """Offloading learns in the warm-up what to copy."""
    if not setup.offloads or setup.implementation == "none" or setup.number("cuda_graph_warmup_steps") > 0:
        return None
    return Clash(
        f"{setup.spelled('cuda_graph_warmup_steps')} is 0 and must be greater than 0 when enabling fine-grained activation offloading",
        ("cuda_graph_warmup_steps", "fine_grained_activation_offloading"),
        (Change("cuda_graph_warmup_steps", 3),),
    )


def _norms_before_dense(setup: Setup) -> bool:
    """Tell whether dense layers have a norm of their own before the MLP: those of Transformer Engine fuse it with the product."""
    return setup.value("transformer_impl") == "local" and (not setup.experts or setup.dense_layers)


@constraint("activation-offload-in-graph-engine", since=(0, 19))
def activation_offload_in_graph_engine(setup: Setup) -> Clash | None:
    """Copies to the host inside of a graph need events that Transformer Engine shares with it since 2.14."""
    engine = setup.releases.engine
    if (
        not setup.offloads
        or setup.implementation == "none"
        or "attn" not in setup.modules
        or engine is None
        or engine >= (2, 14)
    ):
        return None
    captured = ["qkv_linear", "core_attn", "attn_proj"]
    captured += ["mlp_norm"] if "mlp" in setup.modules and _norms_before_dense(setup) else []
    inside = [name for name in setup.words("offload_modules") if name in captured]
    if not inside:
        return None
    left = [name for name in setup.words("offload_modules") if name not in inside]
    holders = "attn and mlp" if inside == ["mlp_norm"] else "attn"
    return Clash(
        f"{setup.spelled('offload_modules')} has {', '.join(inside)} and {_list_name(setup)} has {holders}: offloading modules captured in "
        f"a CUDA graph requires TE>=2.14.0 (transformer-engine); this is {'.'.join(map(str, engine))}",
        ("offload_modules", "cuda_graph_modules"),
        (Change("offload_modules", left),) if left else (Change("fine_grained_activation_offloading", LEAVE_OUT),),
        "or install transformer-engine 2.14",
    )


@constraint("activation-offload-bound", since=(0, 18))
def activation_offload_bound(setup: Setup) -> Clash | None:
    """A graph of the whole iteration wants a bound for the copies that are under way."""
    name = "fine_grained_offloading_max_inflight_offloads"
    if not setup.offloads or not setup.whole_iteration:
        return None
    if setup.value(name) is not None and setup.number(name) >= 0:
        return None
    return Clash(
        f"{setup.spelled(name)} is {setup.value(name)} and must be a non-negative integer with fine-grained activation offloading and "
        "full-iteration CUDA graphs",
        ("fine_grained_activation_offloading", name),
        (Change(name, 0),),
    )


@constraint("shared-expert-recompute-with-weight-shards", since=(0, 19))
def shared_expert_recompute_with_weight_shards(setup: Setup) -> Clash | None:
    """Local graphs warm up with a gradient call that the checkpoint of Transformer Engine does not take."""
    if setup.implementation != "local" or (setup.modules and not {"moe", "moe_router"} & set(setup.modules)):
        return None
    shards = ("gtp_weight_remat_size", "tensor_parallel_num_weight_shards")
    if any_of(
        lambda: not any(setup.number(name) > 1 for name in shards),
        lambda: setup.value("fp8") is None and setup.value("fp4") is None,
        lambda: setup.recompute != "selective",
        lambda: "shared_experts" not in setup.recomputed,
        lambda: setup.value("moe_shared_expert_intermediate_size") is None,
        lambda: setup.value("moe_shared_expert_overlap"),
    ):
        return None
    return Clash(
        f"{setup.spelled('recompute_modules')} has shared_experts: GTP with local CUDA graphs that capture shared_experts cannot "
        "recompute it under fp8/fp4",
        ("recompute_modules", "cuda_graph_impl"),
        (Change("recompute_modules", [name for name in setup.recomputed if name != "shared_experts"] or ["layernorm"]),),
    )
