"""What is worth knowing of a configuration that violates nothing: changed defaults, and what no package checks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from cudagraph_skill.config import renames
from cudagraph_skill.config.settings import Form
from cudagraph_skill.config.setup import UndecidedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.config.setup import Setup

_UNIFIED = "inference_dynamic_batching_unified_memory_level"


def notes(setup: Setup) -> Iterator[str]:
    """Yield one sentence for each."""
    yield from _repeated(setup)
    for setting in renames.unknown_fields(setup):
        yield f"{setting.written} is no field of a release of megatron-core: the model's provider has it, or it has no effect"
    if setup.implementation == "none":
        return
    for sentences in (_defaults, _wrong_gradients, _left_out_of_samples, _parts_of_experts, _unchecked, _memory):
        with suppress(UndecidedError):  # nothing is said of what was not read
            yield from sentences(setup)


def _defaults(setup: Setup) -> Iterator[str]:
    if setup.core >= (0, 18) and setup.whole_iteration and setup.setting("cuda_graph_use_single_mempool") is None:
        yield (
            "cuda_graph_use_single_mempool is True by default since megatron-core 0.18 (False before), and since then is about "
            "graphs of the whole iteration and of the optimizer only"
        )
    if setup.form is Form.COMMAND_LINE and not setup.value("use_te_rng_tracker") and setup.value("transformer_impl") != "local":
        yield "--te-rng-tracker is not set; Megatron-LM switches it on by itself for graphs of transformer_engine layers"


def _wrong_gradients(setup: Setup) -> Iterator[str]:
    """Say which releases compute wrong gradients with these graphs (benchmarks/megatron_graphs.py shows it)."""
    if setup.implementation != "local" or not setup.per_layer:
        return
    if (0, 16) <= setup.core < (0, 18):
        yield (
            "per-layer local graphs of megatron-core 0.16 and 0.17 overwrite the input of the first layer before its backward: in "
            "training its gradients are wrong; use megatron-core 0.18, transformer_engine graphs or full_iteration"
        )
    if setup.core >= (0, 19) and setup.value("transformer_impl") == "local":
        yield (
            "transformer_impl is local: where Transformer Engine is installed, per-layer local graphs of megatron-core 0.19 free inputs "
            "that torch's norms save for the backward, and gradients are wrong; use layers of Transformer Engine"
        )


def _left_out_of_samples(setup: Setup) -> Iterator[str]:
    """Say what `TECudaGraphHelper` of megatron-core 0.14 to 0.19 captures other than the layer gets it (read in source, not run)."""
    if setup.implementation != "transformer_engine":
        return
    positions = setup.setting("position_embedding_type")
    if positions is not None and positions.value in ("yarn", "mrope") and (not setup.modules or "attn" in setup.modules):
        yield (
            f"the position embedding is {positions.value}: transformer_engine graphs of attention are captured without the rotary embedding, "
            "and replays leave it out without an error (read in source, not run); name modules without attn, or use full_iteration"
        )
    if setup.value("fp16"):
        yield "transformer_engine graphs are captured with bfloat16 inputs, whatever the parameters are (read in source, not run): use bf16"


def _parts_of_experts(setup: Setup) -> Iterator[str]:
    """Say in which models local graphs know parts of layers of experts (benchmarks/megatron_graphs.py shows it)."""
    named = setup.core >= (0, 16) and {"moe_router", "moe_preprocess"} & set(setup.modules)
    if setup.implementation == "local" and setup.per_layer and setup.experts and named:
        yield (
            "local graphs take moe_router and moe_preprocess only in HybridModel (with moe_permute_fusion); layers of GPTModel are captured "
            "whole where attn is named, experts included, and not at all where it is not: use transformer_engine graphs"
        )


def _repeated(setup: Setup) -> Iterator[str]:
    """Say which settings are given twice with different values: the last one counts."""
    for name in dict.fromkeys(setting.name for setting in setup.reading.settings):
        values = [setting for setting in setup.reading.settings if setting.name == name]
        if any(setting.value != values[-1].value for setting in values):
            lines = ", ".join(str(setting.line) for setting in values)
            yield f"{values[-1].written} is set {len(values)} times with different values (lines {lines}); the last one counts"


def _unchecked(setup: Setup) -> Iterator[str]:
    """Say what goes wrong later, because no package looks for it."""
    new_name = setup.variables.get("PYTORCH_ALLOC_CONF", "") if "PYTORCH_CUDA_ALLOC_CONF" not in setup.variables else ""
    if isinstance(new_name, str) and "expandable_segments:True" in new_name:  # torch ignores it beside the old name
        yield (
            "PYTORCH_ALLOC_CONF has expandable_segments:True; torch 2.10 and later read it, and no package looks into it: set "
            "NCCL_GRAPH_REGISTER=0 yourself"
        )
    if setup.form is Form.RECIPE and setup.whole_iteration and setup.value("ddp.check_for_nan_in_grad"):
        yield "ddp.check_for_nan_in_grad is on and nothing checks it; its host read fails in the capture of a whole iteration: set it to False"
    if setup.form is Form.RECIPE and setup.whole_iteration and setup.has_section("dataset.offline_packing_specs"):
        yield (
            "sequences are packed and one graph holds the whole iteration: the forward step of Bridge 0.6 reads max_seqlen_q by "
            ".item(), which a capture refuses (read in its source, not run); graphs of transformer_engine without attn do not hold it"
        )
    gathers = ("overlap_param_gather_with_optimizer_step", "optimizer.overlap_param_gather_with_optimizer_step")
    if setup.whole_iteration and any(setup.value(name) for name in (*gathers, f"comm_overlap.{gathers[0]}")):
        yield (
            "overlap_param_gather_with_optimizer_step is on: the gather of the step before is outside of the whole-iteration graph, "
            "and the capture fails when it waits for it; switch it off"
        )
    moves = setup.value("rl_kv_cache_management_mode") != "persist" and not setup.number(_UNIFIED)
    if setup.value("perform_rl_step") and setup.value("rl_persist_cuda_graphs") and moves:
        yield (
            "--rl-persist-cuda-graphs needs a KV cache that stays at its address: without --rl-kv-cache-management-mode persist or "
            "unified memory the run stops unless torch_memory_saver is installed"
        )
    if setup.value("rampup_batch_size"):
        yield "the batch size is ramped up: graphs hold a fixed number of microbatches; start them after the ramp, or leave the ramp out"
    exits = ("exit_interval", "exit_duration_in_mins", "train.exit_interval", "train.exit_duration_in_mins")
    if any(setup.value(name) for name in exits):
        yield "the run may exit early: graphs hold buffers of NCCL and must be deleted before the process groups are destroyed"


def _memory(setup: Setup) -> Iterator[str]:
    if setup.whole_iteration or setup.number("pipeline_model_parallel_size") > 1:
        yield "graphs keep their buffers: every pipeline stage holds its own graphs, and a whole iteration holds all activations"
