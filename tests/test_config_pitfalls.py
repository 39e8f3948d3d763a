"""Pitfalls that users of Megatron-Bridge report, each in one recipe: found, or said where no package checks it."""

from __future__ import annotations

import pytest
from cudagraph_skill.config import examine

CLEAN = """
def recipe():
    cfg = base_recipe()
    cfg.model.num_moe_experts = 8
    cfg.model.moe_token_dispatcher_type = "alltoall"
    cfg.model.cuda_graph_impl = "transformer_engine"
    cfg.model.cuda_graph_scope = ["attn", "moe_router", "moe_preprocess"]
    cfg.model.cuda_graph_warmup_steps = 3
    cfg.model.use_te_rng_tracker = True
    cfg.rng.te_rng_tracker = True
    return cfg
"""
WHOLE = CLEAN.replace('"transformer_engine"', '"local"').replace('"attn", "moe_router", "moe_preprocess"', '"full_iteration"')
RELEASES = ["megatron-bridge==0.4.2", "megatron-core==0.17.1", "transformer-engine==2.11"]

# Lines that a recipe adds, and the constraint that they violate.
VIOLATIONS = {
    "RNG tracker": (["cfg.model.use_te_rng_tracker = False", "cfg.rng.te_rng_tracker = False"], "bridge-rng-tracker"),
    "two scopes of experts": (['cfg.model.cuda_graph_scope = ["moe", "moe_router"]'], "moe-and-moe-router"),
    "experts without padding": (['cfg.model.cuda_graph_scope = ["moe"]'], "moe-without-drop-and-pad"),
    "preprocess alone": (['cfg.model.cuda_graph_scope = ["moe_preprocess"]'], "moe-preprocess-without-router"),
    "delayed weight gradients": (
        [
            "cfg.model.cuda_graph_scope = [CudaGraphScope.attn]",  # Bridge 0.4 looks for members, not for strings
            "cfg.comm_overlap.delay_wgrad_compute = True",
            "cfg.comm_overlap.overlap_moe_expert_parallel_comm = True",
        ],
        "delayed-wgrad-in-graph-engine",
    ),
    "CPU offloading": (["cfg.model.cpu_offloading = True", "cfg.model.cpu_offloading_num_layers = 1"], "cpu-offloading"),
    "recompute of experts": (
        ['cfg.model.recompute_granularity = "selective"', 'cfg.model.recompute_modules = ["moe"]'],
        "moe-recompute-over-router",
    ),
    "lengths that vary": (["cfg.model.variable_seq_lengths = True"], "variable-sequence-lengths"),
}
# Lines, and what is said of them, since no package checks it.
SAID = {
    "memory": (["cfg.model.pipeline_model_parallel_size = 4"], "every pipeline stage holds its own graphs"),
    "clean-up": (["cfg.train.exit_interval = 100"], "must be deleted before the process groups are destroyed"),
}


def _with(lines: list[str], recipe: str = CLEAN) -> str:
    added = "".join(f"    {line}\n" for line in lines)
    return recipe.replace("    return cfg\n", f"{added}    return cfg\n")


def _found(text: str, **run: object) -> set[str]:
    report = examine(text, ".py", RELEASES, **run)  # type: ignore[arg-type]
    return {violation.id for violation in report.violations}


def test_the_recipe_that_they_are_put_into_violates_nothing() -> None:
    assert not _found(CLEAN)
    assert not _found(_with(["cfg.rerun_state_machine.check_for_nan_in_loss = False"], WHOLE))


@pytest.mark.parametrize("pitfall", VIOLATIONS)
def test_a_pitfall_is_found(pitfall: str) -> None:
    lines, name = VIOLATIONS[pitfall]
    assert name in _found(_with(lines))


def test_a_nan_check_in_a_whole_iteration_is_found() -> None:
    assert "bridge-nan-check" in _found(WHOLE)


@pytest.mark.parametrize(("arch", "register"), [(90, ""), (100, ""), (90, "0")])
def test_expandable_segments_need_a_setting_of_nccl(arch: int, register: str) -> None:
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} | (
        {"NCCL_GRAPH_REGISTER": register} if register else {}
    )
    assert ("expandable-segments" in _found(CLEAN, variables=variables, arch=arch)) == (register != "0")
    local = WHOLE.replace('"full_iteration"', '"attn"')
    assert ("expandable-segments" in _found(local, variables=variables, arch=arch)) == (arch < 100 and register != "0")


@pytest.mark.parametrize(("core", "refused"), [("0.14.0", False), ("0.15.3", True), ("0.16.1", False)])
def test_expandable_segments_with_a_whole_iteration_are_refused_by_0_15(core: str, refused: bool) -> None:
    switch = "enable_cuda_graph=True" if core == "0.14.0" else 'cuda_graph_impl="local"'
    scope = '["full_iteration"]' if core == "0.16.1" else '"full_iteration"'
    text = f"TransformerConfig({switch}, cuda_graph_scope={scope})"
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    report = examine(text, ".py", [f"megatron-core=={core}"], variables=variables, arch=90)
    assert ("expandable-segments" in {violation.id for violation in report.violations}) == refused


@pytest.mark.parametrize("pitfall", SAID)
def test_a_pitfall_that_no_package_checks_is_said(pitfall: str) -> None:
    lines, said = SAID[pitfall]
    report = examine(_with(lines), ".py", RELEASES)
    assert not report.violations
    assert any(said in note for note in report.notes)


@pytest.mark.parametrize(
    ("positions", "modules", "said"),
    [
        ("yarn", "attn moe_router", True),
        ("mrope", "", True),
        ("rope", "attn", False),
        ("yarn", "moe_router moe_preprocess", False),
    ],
)
def test_a_rotary_embedding_that_graphs_leave_out_is_said(positions: str, modules: str, said: bool) -> None:
    flags = f"--cuda-graph-impl transformer_engine --position-embedding-type {positions} --num-experts 8 --bf16"
    text = f"pretrain_gpt.py {flags} {f'--cuda-graph-modules {modules}' if modules else ''}"
    notes = examine(text, ".sh", ["megatron-core==0.19.2"]).notes
    assert any("without the rotary embedding" in note for note in notes) == said


@pytest.mark.parametrize(("precision", "said"), [("--fp16", True), ("--bf16", False)])
def test_half_precision_under_graphs_of_transformer_engine_is_said(precision: str, said: bool) -> None:
    text = f"pretrain_gpt.py --cuda-graph-impl transformer_engine {precision}"
    notes = examine(text, ".sh", ["megatron-core==0.19.2"]).notes
    assert any("bfloat16 inputs" in note for note in notes) == said


@pytest.mark.parametrize(("core", "said"), [("0.15.3", False), ("0.16.1", True), ("0.17.1", True), ("0.18.2", False)])
def test_releases_whose_local_graphs_give_wrong_gradients_are_named(core: str, said: bool) -> None:
    text = "pretrain_gpt.py --cuda-graph-impl local --te-rng-tracker"
    notes = examine(text, ".sh", [f"megatron-core=={core}"]).notes
    assert any("its gradients are wrong" in note for note in notes) == said


@pytest.mark.parametrize(("layers", "said"), [("local", True), ("transformer_engine", False)])
def test_layers_of_torch_under_local_graphs_are_named_for_0_19(layers: str, said: bool) -> None:
    text = f"pretrain_gpt.py --cuda-graph-impl local --transformer-impl {layers} --te-rng-tracker"
    notes = examine(text, ".sh", ["megatron-core==0.19.2"]).notes
    assert any("gradients are wrong" in note for note in notes) == said
