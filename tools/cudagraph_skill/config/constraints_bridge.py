"""The constraints that Megatron-Bridge adds: its container's validation, the model provider, and its overlap settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.config.constraint import LEAVE_OUT, Change, Clash, constraint
from cudagraph_skill.config.settings import Form
from cudagraph_skill.config.setup import UndecidedError

if TYPE_CHECKING:
    from cudagraph_skill.config.setup import Setup

_RECIPE = frozenset({Form.RECIPE})
_PACKING = "dataset.offline_packing_specs"
_OLD_PACKING = "dataset.packed_sequence_specs"  # its name until 0.5
_PACKED_IN_BATCHES = ("dataset.enable_in_batch_packing", "dataset.pack_sequences_in_batch")  # since 0.6, and until 0.5
_READS_PACKS = ("attn", "mamba")  # the modules whose layers are called with `packed_seq_params`


@constraint("bridge-rng-tracker", forms=_RECIPE, of_bridge=True)
def bridge_rng_tracker(setup: Setup) -> Clash | None:
    """The provider of GPT models wants the RNG tracker of Transformer Engine; validation copies either setting to the other."""
    if setup.implementation == "none" or setup.value("use_te_rng_tracker") or setup.value("rng.te_rng_tracker"):
        return None
    return Clash(
        f"{setup.spelled('cuda_graph_impl')} is {setup.implementation} and use_te_rng_tracker is not set: Transformer Engine's RNG "
        "tracker is required for CUDA graphs (model.use_te_rng_tracker, or rng.te_rng_tracker)",
        ("use_te_rng_tracker", "rng.te_rng_tracker", "cuda_graph_impl"),
        (Change("use_te_rng_tracker", True),),
    )


@constraint("bridge-nan-check", since=(0, 3), forms=_RECIPE, of_bridge=True)
def bridge_nan_check(setup: Setup) -> Clash | None:
    """The check of the loss for NaN reads a value on the host, which a captured iteration cannot."""
    if not setup.whole_iteration or not setup.nan_check:
        return None
    return Clash(
        "rerun_state_machine.check_for_nan_in_loss is on, and must be disabled when using a full_iteration CUDA graph",
        ("rerun_state_machine.check_for_nan_in_loss", "cuda_graph_impl"),
        (Change("rerun_state_machine.check_for_nan_in_loss", False),),
    )


@constraint("bridge-local-per-layer", since=(0, 6), forms=_RECIPE, of_bridge=True)
def bridge_local_per_layer(setup: Setup) -> Clash | None:
    """Bridge makes per-layer graphs of a training with Transformer Engine only."""
    if setup.value("cuda_graph_impl") != "local" or setup.whole_iteration:
        return None  # an old switch is carried over after the check, and takes inference graphs by default
    inference = setup.setting("inference_cuda_graph_scope") is not None and setup.inference_scope in ("layer", "block")
    if inference and not setup.modules:
        return None
    named = f" of {', '.join(setup.modules)}" if setup.modules else ""
    return Clash(
        f"{setup.spelled('cuda_graph_impl')} is local, which Megatron Bridge supports only for full-iteration CUDA graphs: per-layer "
        f"graphs{named} need transformer_engine",
        ("cuda_graph_impl",),
        (Change("cuda_graph_impl", "transformer_engine"),),
    )


@constraint("bridge-packing-unpadded", since=(0, 6), forms=_RECIPE, of_bridge=True)
def bridge_packing_unpadded(setup: Setup) -> Clash | None:
    """Packed sequences have a fixed shape only when they are padded to it."""
    if not setup.has_section(_PACKING) or _padded(setup):
        return None
    fixed_lengths = setup.value(f"{_PACKING}.pad_cu_seqlens")
    if not fixed_lengths and not (_whole_iteration(setup) or setup.value("cuda_graph_impl") == "transformer_engine"):
        return None
    seen = f"{setup.spelled(f'{_PACKING}.pad_cu_seqlens')}=True" if fixed_lengths else "offline packing with CUDA graphs"
    return Clash(
        f"{seen} requires dataset pad_to_max_length=True",
        (_PACKING, f"{_PACKING}.pad_cu_seqlens", "cuda_graph_impl"),
        (_padding(setup),),
    )


def _whole_iteration(setup: Setup) -> bool:
    """Return whether one graph holds the iteration, before Megatron-Core carries old settings over."""
    written = setup.value("cuda_graph_impl")
    return written == "full_iteration" or (written == "local" and "full_iteration" in setup.named_modules)


def _padded(setup: Setup) -> bool:
    """Return whether every pack has the same length; Bridge looks for True itself."""
    names = ("dataset.pad_to_max_length", "dataset.dataset_kwargs.pad_to_max_length")
    return any(setup.value(name) is True for name in names)


def _padding(setup: Setup) -> Change:
    """Return the change that pads: where the text has it, else in the arguments that every release has."""
    if setup.setting("dataset.pad_to_max_length"):
        return Change("dataset.pad_to_max_length", True)
    setting = setup.setting("dataset.dataset_kwargs")
    written = setting.value if setting and isinstance(setting.value, dict) else {}
    return Change("dataset.dataset_kwargs", {**written, "pad_to_max_length": True})


@constraint("bridge-packed-attention-unpadded", since=(0, 6), forms=_RECIPE, of_bridge=True)
def bridge_packed_attention_unpadded(setup: Setup) -> Clash | None:
    """Captured attention reads the boundaries of packed sequences from an array of fixed length."""
    if not _refused_unpadded(setup) or not _padded(setup):
        return None  # padding is its own constraint
    said = "packed attention CUDA graphs require offline_packing_specs.pad_cu_seqlens=True"
    if _whole_iteration(setup):
        return Clash(said, (_PACKING, "cuda_graph_impl"), (Change(f"{_PACKING}.pad_cu_seqlens", True),))
    changes = _without_attention(setup)
    return Clash(
        f"{said}, and with it replay of transformer_engine graphs still refuses packed sequences in attention",
        (_PACKING, "cuda_graph_impl"),
        changes,
        "" if changes else _NAME_OTHERS,
    )


def _refused_unpadded(setup: Setup) -> bool:
    """Return whether the validation of Bridge 0.6 wants boundaries of a fixed length, and they have none."""
    modules = [name for name in setup.named_modules if not name.startswith("full")]
    layers = setup.value("cuda_graph_impl") == "transformer_engine" and (not modules or "attn" in modules)
    captured = layers or _whole_iteration(setup)
    return setup.has_section(_PACKING) and captured and not setup.value(f"{_PACKING}.pad_cu_seqlens")


_NAME_OTHERS = "capture no attention: name modules such as mlp (layers without experts) or moe_router (layers with experts)"


@constraint("bridge-packed-attention-captured", forms=_RECIPE, of_bridge=True)
def bridge_packed_attention_captured(setup: Setup) -> Clash | None:
    """Graphs of Transformer Engine take tensors only, and packed sequences come as an object."""
    if setup.implementation != "transformer_engine":
        return None
    inside = [name for name in _READS_PACKS if name in setup.modules]
    if setup.core >= (0, 16) and setup.modules and not inside:
        return None
    packed = _packed(setup)
    if not packed:
        return None
    bridge = setup.releases.bridge or (0,)
    if bridge >= (0, 6) and packed == _PACKING and (not _padded(setup) or _refused_unpadded(setup)):
        return None  # validation refuses it: constraints of their own
    what = f"holds {' and '.join(inside)}" if inside else "holds whole layers"
    changes = _without_attention(setup)
    return Clash(
        f"{setup.spelled(packed)} packs sequences, and the graph of {setup.spelled('cuda_graph_impl')} transformer_engine {what}: "
        "validation takes it, and the first replay stops with `CUDA graph accepts only Tensor inputs`, as packed_seq_params is none",
        (packed, "cuda_graph_modules", "cuda_graph_scope", "cuda_graph_impl"),
        changes,
        "" if changes else _NAME_OTHERS,
    )


def _packed(setup: Setup) -> str:
    """Return the setting that packs sequences, or an empty text."""
    bridge = setup.releases.bridge or (0,)
    section = _PACKING if bridge >= (0, 6) else _OLD_PACKING
    size = f"{section}.packed_sequence_size"
    if setup.has_section(section) and not (setup.setting(size) and setup.number(size) <= 0):
        return section
    in_batches = _PACKED_IN_BATCHES[0 if bridge >= (0, 6) else 1]
    return in_batches if setup.value(in_batches) else ""


def _without_attention(setup: Setup) -> tuple[Change, ...]:
    """Return the change that leaves modules which do not see packed sequences; none where that depends on a model that was not read."""
    if setup.core < (0, 16):  # every graph of layers holds attention
        scope = setup.modules_setting
        return (Change("cuda_graph_impl", "none"), *([Change(scope.name, LEAVE_OUT)] if scope else []))
    name = setup.modules_setting.name if setup.modules_setting else _list_field(setup)
    left = [module for module in setup.written_modules if module not in (*_READS_PACKS, "full")]
    if not left:
        try:
            left = ["moe_router"] if setup.experts else ["mlp"]
        except UndecidedError:
            return ()
    return (Change(name, left),)


def _list_field(setup: Setup) -> str:
    return "cuda_graph_modules" if setup.core >= (0, 18) else "cuda_graph_scope"


@constraint("variable-sequence-lengths")
def variable_sequence_lengths(setup: Setup) -> Clash | None:
    """A graph replays the shapes that it captured."""
    if not setup.value("variable_seq_lengths") or setup.implementation == "none":
        return None
    return Clash(
        f"{setup.spelled('variable_seq_lengths')} is set: a CUDA graph needs fixed sequence lengths, with variable_seq_lengths=False",
        ("variable_seq_lengths", "cuda_graph_impl"),
        (Change("variable_seq_lengths", False),),
    )
