"""The options that decide about CUDA graphs: how the command line spells them, and in which releases they exist.

Read from the parsers and dataclasses of Megatron-Core 0.14.0 to 0.19.2 (`benchmarks/configurations.py` compares them again).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cudagraph_skill.config.releases import Release

_ALWAYS = (0,)
_NEVER = (9999,)


class Flag(NamedTuple):
    """How a flag gives a setting: `on` and `off` take no value, `either` has a `--no-` form, `many` takes words."""

    name: str
    kind: str  # "on", "off", "either", "one", "many"


# Flags of Megatron-LM by the field of the configuration that they set.
FLAGS: dict[str, Flag] = {
    **{
        f"--{name.replace('_', '-')}": Flag(name, "on")
        for name in (
            "enable_cuda_graph external_cuda_graph decode_only_cuda_graphs optimizer_cuda_graph delay_offload_until_cuda_graph "
            "inference_cuda_graph_all_prefills moe_pad_experts_for_cuda_graph_inference moe_pad_expert_input_to_capacity "
            "moe_router_padding_for_fp8 moe_router_padding_for_quantization moe_shared_expert_overlap overlap_grad_reduce "
            "overlap_moe_expert_parallel_comm overlap_param_gather_with_optimizer_step delay_wgrad_compute add_qkv_bias "
            "fine_grained_activation_offloading hybrid_context_parallel inference_dynamic_batching perform_rl_step "
            "use_megatron_fsdp cross_entropy_loss_fusion fake_process_group fp16 bf16"
        ).split()
    },
    **{
        f"--{name.replace('_', '-')}": Flag(name, "one")
        for name in (
            "cuda_graph_impl cuda_graph_warmup_steps inference_cuda_graph_scope inference_cuda_graph_max_tokens "
            "inference_dynamic_batching_num_cuda_graphs inference_dynamic_batching_cuda_graph_max_tokens "
            "inference_dynamic_batching_cuda_graph_mixed_prefill_count "
            "inference_dynamic_batching_cuda_graph_sizing_distribution inference_dynamic_batching_unified_memory_level "
            "inference_batch_times_seqlen_threshold cpu_offloading_num_layers recompute_granularity attention_dropout "
            "hidden_dropout moe_input_jitter_eps moe_layer_freq moe_expert_capacity_factor moe_token_dispatcher_type "
            "moe_shared_expert_intermediate_size fine_grained_offloading_max_inflight_offloads transformer_impl recompute_method recompute_num_layers fp8_recipe "
            "expert_model_parallel_size pipeline_model_parallel_size rl_kv_cache_management_mode cross_entropy_fusion_impl "
            "tensor_parallel_num_weight_shards expert_tensor_parallel_num_weight_shards loss_scale position_embedding_type"
        ).split()
    },
    "--cuda-graph-scope": Flag("cuda_graph_scope", "many"),
    "--cuda-graph-modules": Flag("cuda_graph_modules", "many"),
    "--recompute-modules": Flag("recompute_modules", "many"),
    "--offload-modules": Flag("offload_modules", "many"),
    "--rampup-batch-size": Flag("rampup_batch_size", "many"),
    "--rl-reset-cuda-graphs": Flag("rl_reset_cuda_graphs", "either"),
    "--rl-persist-cuda-graphs": Flag("rl_persist_cuda_graphs", "either"),
    "--rl-training-cuda-graphs": Flag("rl_training_cuda_graphs", "either"),
    "--rl-offload-kv-cache-during-training": Flag("rl_offload_kv_cache_during_training", "either"),
    "--num-experts": Flag("num_moe_experts", "one"),
    "--fp8-format": Flag("fp8", "one"),
    "--fp4-format": Flag("fp4", "one"),
    "--te-rng-tracker": Flag("use_te_rng_tracker", "on"),
    "--inference-rng-tracker": Flag("inference_rng_tracker", "on"),
    "--recompute-activations": Flag("recompute_activations", "on"),
    "--use-nccl-ub": Flag("nccl_ub", "on"),
    "--disable-bias-linear": Flag("add_bias_linear", "off"),
    "--no-gradient-accumulation-fusion": Flag("gradient_accumulation_fusion", "off"),
    "--no-check-for-nan-in-loss-and-grad": Flag("check_for_nan_in_loss_and_grad", "off"),
}
_FLAG_OF = {flag.name: (spelling, flag) for spelling, flag in FLAGS.items()}


def flag_of(name: str, value: object) -> str:
    """Spell the flag that gives a setting this value, with the value; a flag that is already the default is empty."""
    spelling, flag = _FLAG_OF.get(name, (f"--{name.replace('_', '-')}", Flag(name, "one")))
    if flag.kind in ("on", "off"):
        return spelling if value is (flag.kind == "on") else ""
    if flag.kind == "either":
        return spelling if value else f"--no-{spelling[2:]}"
    words = value if isinstance(value, list) else [value]
    return " ".join([spelling, *map(str, words)]) if words else ""


class Life(NamedTuple):
    """The releases of Megatron-Core that have an option, and the option to use in others.

    Attributes:
        since: First release with it.
        until: First release without it.
        instead: What does the same where it does not exist, by the first release that has that.
        places: "flag" where only the command line has it, "field" where only TransformerConfig has it.
    """

    since: Release = _ALWAYS
    until: Release = _NEVER
    instead: tuple[tuple[Release, str], ...] = ()
    places: tuple[str, ...] = ("flag", "field")


# Every option that names CUDA graphs; one that is not here was in no release that was read.
LIVES: dict[str, Life] = {
    "enable_cuda_graph": Life(),
    "external_cuda_graph": Life(),
    "cuda_graph_impl": Life(since=(0, 15), instead=((_ALWAYS, "enable_cuda_graph or external_cuda_graph"),)),
    "cuda_graph_scope": Life(),
    "cuda_graph_modules": Life(since=(0, 18), instead=((_ALWAYS, "cuda_graph_scope"),)),
    "cuda_graph_warmup_steps": Life(),
    "cuda_graph_use_single_mempool": Life(places=("field",)),
    "cuda_graph_retain_backward_graph": Life(places=("field",)),
    "inference_cuda_graph_scope": Life(since=(0, 18), instead=(((0, 17), "cuda_graph_scope full_iteration_inference"),)),
    "delay_offload_until_cuda_graph": Life(since=(0, 19)),
    "moe_pad_experts_for_cuda_graph_inference": Life(since=(0, 15)),
    "optimizer_cuda_graph": Life(since=(0, 17), places=("flag",)),
    "decode_only_cuda_graphs": Life(since=(0, 15), places=("flag",)),
    "inference_cuda_graph_all_prefills": Life(since=(0, 18), places=("flag",)),
    "inference_cuda_graph_max_tokens": Life(
        since=(0, 19), instead=(((0, 16), "inference_dynamic_batching_cuda_graph_max_tokens"), ((0, 18), "")), places=("flag",)
    ),
    "inference_dynamic_batching_num_cuda_graphs": Life(places=("flag",)),
    "inference_dynamic_batching_cuda_graph_max_tokens": Life(
        since=(0, 16), until=(0, 18), instead=(((0, 19), "inference_cuda_graph_max_tokens"),), places=("flag",)
    ),
    "inference_dynamic_batching_cuda_graph_mixed_prefill_count": Life(since=(0, 16), places=("flag",)),
    "inference_dynamic_batching_cuda_graph_sizing_distribution": Life(since=(0, 19), places=("flag",)),
    "rl_reset_cuda_graphs": Life(
        since=(0, 15), until=(0, 17), instead=(((0, 17), "rl_persist_cuda_graphs"),), places=("flag",)
    ),
    "rl_persist_cuda_graphs": Life(since=(0, 17), instead=(((0, 15), "rl_reset_cuda_graphs"),), places=("flag",)),
    "rl_training_cuda_graphs": Life(since=(0, 16), places=("flag",)),
    "rl_offload_kv_cache_during_training": Life(since=(0, 15), until=(0, 17), places=("flag",)),
    "cuda_graph_num_warmup_steps": Life(since=_NEVER, instead=((_ALWAYS, "cuda_graph_warmup_steps"),)),
}


# Fields of model providers of Megatron-Bridge, by the first release of Bridge that has them.
OF_PROVIDERS: dict[str, Release] = {
    "max_vision_cuda_graph_seq_length": (0, 5),
    "vision_cuda_graph_impl": (0, 5),
    "vision_cuda_graph_scope": (0, 5),
}

# Flags about other things that constraints look at, where not every release has them.
FLAGS_SINCE: dict[str, Release] = {
    "cpu_offloading_num_layers": (0, 16),
    "expert_tensor_parallel_num_weight_shards": (0, 19),
    "fake_process_group": (0, 16),
    "fine_grained_activation_offloading": (0, 16),
    "fine_grained_offloading_max_inflight_offloads": (0, 18),
    "fp4": (0, 15),
    "hybrid_context_parallel": (0, 16),
    "inference_dynamic_batching_unified_memory_level": (0, 15),
    "moe_router_padding_for_quantization": (0, 16),
    "offload_modules": (0, 16),
    "perform_rl_step": (0, 15),
    "rl_kv_cache_management_mode": (0, 17),
    "tensor_parallel_num_weight_shards": (0, 19),
}


def life(name: str, *, flag: bool) -> Life | None:
    """Return the releases that have an option, where it is about graphs or a constraint depends on it."""
    since = FLAGS_SINCE.get(name) if flag else None
    return Life(since) if since else LIVES.get(name)


def instead(name: str, core: Release) -> str:
    """Return the option that a release has in place of one that it lacks, or an empty text."""
    options = [option for since, option in LIVES[name].instead if since <= core] if name in LIVES else []
    return options[-1] if options else ""


# Captured modules that `cuda_graph_scope` or `cuda_graph_modules` may name, by the first release with this list.
_MODULES: tuple[tuple[Release, tuple[str, ...]], ...] = (
    (_ALWAYS, ("full", "attn", "full_iteration")),
    ((0, 16), ("attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba", "full_iteration", "full")),
    (
        (0, 17),
        ("attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba", "full_iteration", "full_iteration_inference", "full"),
    ),
)
_IMPLEMENTATIONS: tuple[tuple[Release, tuple[str, ...]], ...] = (
    ((0, 15), ("none", "local", "transformer_engine")),
    ((0, 18), ("none", "local", "transformer_engine", "full_iteration")),
)
INFERENCE_SCOPES = {
    "none": ("none",),
    "local": ("layer", "block"),
    "transformer_engine": ("none",),
    "full_iteration": ("none",),
}


def modules(core: Release) -> tuple[str, ...]:
    """Return the names that a release accepts as captured modules."""
    return [names for since, names in _MODULES if since <= core][-1]


def implementations(core: Release) -> tuple[str, ...]:
    """Return the values of `cuda_graph_impl` in a release that has it."""
    return [names for since, names in _IMPLEMENTATIONS if since <= core][-1]
