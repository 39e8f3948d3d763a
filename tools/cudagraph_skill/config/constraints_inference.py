"""The constraints of inference graphs, and of graphs in reinforcement learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.config.constraint import LEAVE_OUT, Change, Clash, constraint
from cudagraph_skill.config.settings import Form
from cudagraph_skill.config.setup import any_of

if TYPE_CHECKING:
    from cudagraph_skill.config.setup import Setup

_COMMAND_LINE = frozenset({Form.COMMAND_LINE})


@constraint("experts-unpadded-for-inference", since=(0, 16), until=(0, 18), forms=_COMMAND_LINE)
def experts_unpadded_for_inference(setup: Setup) -> Clash | None:
    """Without padding the experts read token counts on the host."""
    if setup.implementation != "local" or setup.number("expert_model_parallel_size") <= 1:
        return None
    if setup.value("moe_pad_experts_for_cuda_graph_inference"):
        return None
    if setup.core >= (0, 17) and setup.value("transformer_impl") == "inference_optimized":
        return None
    return Clash(
        f"{setup.spelled('expert_model_parallel_size')} is {setup.value('expert_model_parallel_size')} with local graphs: "
        "--moe-pad-experts-for-cuda-graph-inference must be set when using CUDA graphs with expert parallelism",
        ("expert_model_parallel_size", "cuda_graph_impl"),
        (Change("moe_pad_experts_for_cuda_graph_inference", True),),
    )


@constraint("padded-experts-with-inference-layers", since=(0, 17), forms=_COMMAND_LINE)
def padded_experts_with_inference_layers(setup: Setup) -> Clash | None:
    """Layers that are optimized for inference keep token counts on the GPU and need no padding."""
    if not setup.value("moe_pad_experts_for_cuda_graph_inference") or setup.value("transformer_impl") != "inference_optimized":
        return None
    return Clash(
        f"{setup.spelled('moe_pad_experts_for_cuda_graph_inference')} is set and {setup.spelled('transformer_impl')} is "
        "inference_optimized: moe_pad_experts_for_cuda_graph_inference cannot be True with it",
        ("moe_pad_experts_for_cuda_graph_inference", "transformer_impl"),
        (Change("moe_pad_experts_for_cuda_graph_inference", LEAVE_OUT),),
    )


@constraint("number-of-inference-graphs", since=(0, 17), forms=_COMMAND_LINE)
def number_of_inference_graphs(setup: Setup) -> Clash | None:
    """-1 chooses the number."""
    name = "inference_dynamic_batching_num_cuda_graphs"
    if setup.implementation != "local":
        return None
    number = setup.number(name)
    if number > 0 or number == -1:
        return None
    return Clash(
        f"{setup.spelled(name)} is {number:g} and should be a positive integer or -1",
        (name,),
        (Change(name, -1),),
    )


@constraint("microbatched-pipeline-inference", forms=_COMMAND_LINE)
def microbatched_pipeline_inference(setup: Setup) -> Clash | None:
    """With a threshold the size of a batch decides whether it is split into microbatches."""
    name = "inference_batch_times_seqlen_threshold"
    graphs = setup.value("enable_cuda_graph") if setup.core < (0, 15) else setup.implementation != "none"
    if not graphs or any_of(lambda: setup.number(name) <= -1, lambda: setup.number("pipeline_model_parallel_size") <= 1):
        return None
    return Clash(
        f"{setup.spelled(name)} is {setup.value(name)}: pipeline-parallel microbatched inference is incompatible with CUDA graphs",
        (name, "cuda_graph_impl"),
        (Change(name, LEAVE_OUT),),
    )


@constraint("fp8-inference-block", since=(0, 15), forms=_COMMAND_LINE)
def fp8_inference_block(setup: Setup) -> Clash | None:
    """A graph of all layers in FP8 exists for one kind of layers and one recipe."""
    if setup.core < (0, 17):
        if not setup.whole_iteration or not setup.value("inference_dynamic_batching") or setup.value("fp8") is None:
            return None
        return Clash(
            f"{setup.spelled('fp8')} is set: fp8 is not supported with inference dynamic batching and a full_iteration CUDA graph",
            ("fp8", "cuda_graph_impl"),
            (Change("fp8", LEAVE_OUT),),
        )
    wanted = {"transformer_impl": "inference_optimized", "fp8_recipe": "mxfp8"}
    scope = _block_scope(setup)
    if not scope or setup.value("fp8") is None:
        return None
    wrong = [name for name, value in wanted.items() if setup.value(name) != value]
    if not wrong:
        return None
    return Clash(
        f"{setup.spelled(wrong[0])} is {setup.value(wrong[0])}: fp8 with {scope} is only supported with --transformer-impl="
        "inference_optimized and --fp8-recipe=mxfp8",
        (wrong[0], "fp8"),
        tuple(Change(name, wanted[name]) for name in wrong),
    )


def _block_scope(setup: Setup) -> str:
    """Say what asks for a graph of all layers."""
    if setup.core < (0, 18):
        old = setup.implementation == "local" and "full_iteration_inference" in setup.written_modules
        return "full_iteration_inference" if old else ""
    return "inference scope block" if setup.inference_scope == "block" else ""


@constraint("rl-graphs-without-graphs", since=(0, 17), forms=_COMMAND_LINE)
def rl_graphs_without_graphs(setup: Setup) -> Clash | None:
    """The flags of the RL loop say what is done with graphs, not that there are any."""
    name = next((name for name in ("rl_persist_cuda_graphs", "rl_training_cuda_graphs") if setup.value(name)), None)
    if not setup.value("perform_rl_step") or name is None or setup.implementation != "none":
        return None
    return Clash(
        f"{setup.spelled(name)} is set but no CUDA graphs are being built",
        (name,),
        (Change("cuda_graph_impl", "local"),),
    )


@constraint("rl-offload-keeps-graphs", since=(0, 15), until=(0, 16), forms=_COMMAND_LINE)
def rl_offload_keeps_graphs(setup: Setup) -> Clash | None:
    """A cache that was copied away comes back at another address, so its graphs are captured again."""
    name = "rl_offload_kv_cache_during_training"
    if not setup.value("perform_rl_step") or not setup.value(name) or setup.value("rl_reset_cuda_graphs"):
        return None
    return Clash(
        f"{setup.spelled(name)} is set and --rl-reset-cuda-graphs is not: reset_cuda_graphs must be True when offloading kv cache "
        "during training",
        (name, "rl_reset_cuda_graphs"),
        (Change("rl_reset_cuda_graphs", True),),
    )


@constraint("rl-cache-moves", since=(0, 17), forms=_COMMAND_LINE)
def rl_cache_moves(setup: Setup) -> Clash | None:
    """Graphs that are captured again run dummy steps, which overwrite a cache that was kept; kept graphs need its addresses."""
    if not setup.value("perform_rl_step"):
        return None
    name = "rl_kv_cache_management_mode"
    mode = setup.value(name)
    unified = setup.number("inference_dynamic_batching_unified_memory_level") > 0
    persist = bool(setup.value("rl_persist_cuda_graphs"))
    if mode == "offload" and not persist:
        return Clash(
            f"{setup.spelled(name)} is offload, and requires --rl-persist-cuda-graphs: capturing again runs dummy forward passes, "
            "which corrupt the cache that was kept",
            (name,),
            (Change("rl_persist_cuda_graphs", True),),
        )
    if mode == "offload" and unified:
        message = f"{setup.spelled(name)} is offload, which is incompatible with UVM (unified memory level above 0)"
        return Clash(message, (name,), (Change(name, "persist"),))
    return None
