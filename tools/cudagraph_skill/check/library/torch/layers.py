"""Call layers of torch.nn, and modules of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.attributes import bind_member
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    Host,
    Instance,
    Mapping,
    Object,
    Sequence,
    Tensor,
    Value,
    const,
    is_none,
    number,
    quoted,
)
from cudagraph_skill.check.library.parameters import spelled
from cudagraph_skill.check.library.torch import distributed, modules, recurrent

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

# Numbers of layers that a program changes while it trains, and that their constructor may have got
_NUMBERS = frozenset({"p", "momentum", "eps", "alpha", "negative_slope", "label_smoothing", "beta", "delta", "margin"})


def call_module(machine: Machine, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a module of the user's: hooks, then forward."""
    method = owner.cls.find("forward")
    own = owner.slots.get("forward")
    hooks = machine.torch.hooks.get(id(owner), [])
    for kind, hook in hooks:
        if kind == "before":
            given = machine.call(hook, [owner, Sequence("tuple", args, machine.round)], {}, node)
            args = _replaced(given, args)
    if own is not None:
        result = machine.call(own, args, kwargs, node)
    elif method:
        result = machine.call(bind_member(method[1], owner), args, kwargs, node)
    elif base := next(
        (library for library in owner.cls.libraries() if library.startswith("torch.nn.") and library != "torch.nn.Module"), ""
    ):
        result = call_inherited(machine, owner, base, args, kwargs, node)
    else:
        machine.gpu_work(node, *args)
        result = Tensor("") if any(name.startswith("torch.nn.") for name in owner.cls.libraries()) else Value()
    for kind, hook in hooks:
        if kind == "after":
            given = machine.call(hook, [owner, Sequence("tuple", args, machine.round), result], {}, node)
            result = result if is_none(given) or type(given) is Value else given
    return result


def call_inherited(machine: Machine, owner: Instance, base: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call what a user's layer inherits from one of torch's."""
    given = owner.slots.get("__options__")
    options = spelled(base, given.args, given.kwargs) if isinstance(given, Object) else ([], {})
    made = Object(base, *options, owner.made)
    made.slots = {name: value for name, value in owner.slots.items() if name in {"training", "momentum", "children"}}
    return _layer_result(machine, made, base.rsplit(".", 1)[-1], args, kwargs, node)


def _replaced(given: Value, args: Args) -> Args:
    if isinstance(given, Sequence) and given.items is not None:
        return list(given.items)
    return [given] if isinstance(given, Tensor) else args


def call_layer(machine: Machine, owner: Object, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a layer of torch.nn: its hooks, then the layer."""
    last = owner.name.rsplit(".", 1)[-1]
    hooks = machine.torch.hooks.get(id(owner), [])
    for kind, hook in hooks:
        if kind == "before":
            args = _replaced(machine.call(hook, [owner, Sequence("tuple", args, machine.round)], {}, node), args)
    result = _layer_result(machine, owner, last, args, kwargs, node)
    for kind, hook in hooks:
        if kind == "after":
            given = machine.call(hook, [owner, Sequence("tuple", args, machine.round), result], {}, node)
            result = result if is_none(given) or type(given) is Value else given
    return result


def _layer_result(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    inner = modules.container_items(machine, owner)
    if last == "Sequential" and isinstance(inner, (Sequence, Mapping)):
        result = args[0] if args else Value()
        for part in inner.each():
            result = machine.call(part, [result], {}, node)
        return result
    if last in {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"} and owner.args:
        if last == "DistributedDataParallel":
            distributed.call_ddp(machine, owner, node)
        return machine.call(owner.args[0], args, kwargs, node)
    _use_layer(machine, owner, last, [*args, *kwargs.values()], node)
    _layer_hazards(machine, owner, last, args, kwargs, node)
    return _output_of_layer(machine, owner, last, next((value for value in args if isinstance(value, Tensor)), None))


def _use_layer(machine: Machine, owner: Object, last: str, given: Args, node: ast.AST) -> None:
    """Note the GPU work of a layer: on its arguments, its weights and its numbers, by the library that it needs."""
    tensors = [tensor for _, tensor in modules.own_tensors(machine, owner)]
    machine.gpu_work(node, *given, *tensors)
    unset = {name: number(mix(name, owner.sym)) for name in _NUMBERS - owner.slots.keys()} if machine.inside else {}
    for name, held in [*owner.slots.items(), *unset.items()]:
        if isinstance(held, Host) and name != "training":
            machine.sink(machine.read(owner, name, held, node), node=node)
    machine.torch.trained |= {memory for tensor in tensors if not tensor.frozen for memory in tensor.storages}
    if library := _library_of(last):
        (machine.torch.cold if machine.inside else machine.torch.warm).add(library)
    if last.startswith("Lazy") and "ready" not in owner.slots:
        owner.slots["ready"] = const(True)
        if machine.inside:
            machine.torch.lazy.append(machine.site(node))


def _library_of(layer: str) -> str:
    """Return the CUDA library that a layer uses, which its first call initialises."""
    if layer in {"Linear", "Bilinear", "MultiheadAttention", "TransformerEncoderLayer", "GRUCell", "LSTMCell"}:
        return "cuBLAS"
    return "cuDNN" if layer.startswith(("Conv", "LSTM", "GRU", "RNN")) else ""


def _output_of_layer(machine: Machine, owner: Object, layer: str, main: Tensor | None) -> Value:
    """Return the output of a layer for its first tensor argument."""
    where = main.device if main is not None else ""
    ndim = main.ndim if main is not None else None

    def some() -> Tensor:
        return Tensor(where, ndim, "float")

    if layer in recurrent.LAYERS:
        state: Value = Sequence("tuple", [some(), some()], machine.round) if layer == "LSTM" else some()
        return Sequence("tuple", [some(), state], machine.round)
    if layer in {"LSTMCell", "MultiheadAttention"}:
        return Sequence("tuple", [some(), some()], machine.round)
    if layer.endswith("Loss"):
        reduction = owner.kwargs.get("reduction")
        return Tensor(where, 0 if not isinstance(reduction, Host) or reduction.value != "none" else None, "float")
    if layer in {"Identity", "Flatten", "Unflatten"} and main is not None:
        return main.view(main.ndim if layer == "Identity" else None)
    more = {"Embedding": None if ndim is None else ndim + 1, "EmbeddingBag": None}
    made = Tensor(where, more.get(layer, ndim), "float")
    if machine.inside:
        machine.born |= made.storages
    return made


def _training(owner: Object) -> bool:
    mode = owner.slots.get("training")
    return not (isinstance(mode, Host) and mode.value is False)


def _option(owner: Object, name: str) -> Value | None:
    return owner.slots.get(name) or owner.kwargs.get(name)


def _given(value: Value | None) -> bool:
    """Tell whether an argument is given and not known to be None."""
    return value is not None and not is_none(value)


# Masks that a stack compares with a causal one, and what tells it instead
_CAUSAL = {
    "TransformerEncoder": (("mask", "is_causal"),),
    "TransformerDecoder": (("tgt_mask", "tgt_is_causal"),),
    "Transformer": (("src_mask", "src_is_causal"), ("tgt_mask", "tgt_is_causal")),
}


def _mask_hazards(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Report that a Transformer stack compares its mask with a causal one, or makes nested tensors of padded batches."""
    if last not in _CAUSAL:
        return
    _, kwargs = spelled(f"torch.nn.{last}.forward", args, kwargs)
    for mask, is_causal in _CAUSAL[last]:
        if _given(kwargs.get(mask)) and is_causal not in kwargs:
            message = f"{quoted(node)} compares its mask with a causal one on the host: {is_causal}= is missing"
            machine.report("CG215", node, message)
    nested, mode = _option(owner, "enable_nested_tensor"), owner.slots.get("training")
    off = isinstance(nested, Host) and nested.value is False
    evaluates = isinstance(mode, Host) and mode.value is False
    if last == "TransformerEncoder" and _given(kwargs.get("src_key_padding_mask")) and evaluates and not off:
        machine.report(
            "CG227", node, f"{quoted(node)} makes a nested tensor of the padded batch: enable_nested_tensor=False is missing"
        )


def _layer_hazards(machine: Machine, owner: Object, last: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    _mask_hazards(machine, owner, last, args, kwargs, node)
    if "__orthogonal__" in owner.slots:
        what = "makes its orthogonal weight by matrix_exp at every call, which chooses its scaling on the host"
        machine.report("CG220", node, f"{quoted(node)} {what}")
    if last in _ALWAYS:
        hazard, what = _ALWAYS[last]
        machine.report(hazard, node, f"{quoted(node)} {what}")
    if last.startswith("BatchNorm"):
        _batch_norm_hazards(machine, owner, node)
    if last in recurrent.LAYERS:
        recurrent.on_layer(machine, owner, next((value for value in args if isinstance(value, Tensor)), None), node)


_ALWAYS = {
    "AdaptiveLogSoftmaxWithLoss": ("CG211", "sorts targets into clusters, whose sizes the host reads"),
    "GaussianNLLLoss": ("CG202", "asks on the host whether a variance is negative"),
    "CTCLoss": ("CG226", "copies its lengths between host and GPU"),
}


def _batch_norm_hazards(machine: Machine, owner: Object, node: ast.AST) -> None:
    momentum, tracks = _option(owner, "momentum"), _option(owner, "track_running_stats")
    tracked = not (isinstance(tracks, Host) and tracks.value is False)
    if momentum is not None and is_none(momentum) and _training(owner) and tracked:
        what = "average over all batches, whose count it reads on the host"
        machine.report_at("CG232", owner, f"momentum=None makes this layer {what}")
        machine.report(
            "CG232", node, f"{quoted(node)} averages over all batches (momentum=None), whose count it reads on the host"
        )
