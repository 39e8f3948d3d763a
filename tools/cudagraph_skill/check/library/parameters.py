"""Name the parameters of classes and functions that are no operations on tensors, so that each spelling of a call reads the same.

Rows of `torch/ops.py` have signatures of their own. Here stands what rules read of other calls: by position in `args`, by name
in `kwargs`. `spelled` gives both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_skill.check.library.binding import signature

if TYPE_CHECKING:
    from cudagraph_skill.check.interpreter.values import Value

_AUTOCAST = "device_type, dtype, enabled, cache_enabled"
_BATCH_NORM = "num_features, eps, momentum, affine, track_running_stats"
_RECURRENT = "input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional"
_LOSS = "size_average, reduce, reduction"
_ADAM = "params, lr, betas, eps, weight_decay, amsgrad, *, foreach, maximize, capturable, differentiable, fused"
_GRAPHED = "callables, sample_args, num_warmup_iters, allow_unused_input, pool"

# `torch.optim.adamw.AdamW` is `torch.optim.AdamW`
_HOME = re.compile(r"^(torch\.nn\.|torch\.optim\.)(?:modules\.)?(?!utils|parallel|swa_utils)[a-z]\w*\.(?=[A-Z])")

SIGNATURES = {
    # Python
    "threading.Thread": "group, target, name, args, kwargs, *, daemon",
    "contextvars.ContextVar": "name, *, default",
    "contextlib.nullcontext": "enter_result",
    "os.getenv": "key, default",
    "builtins.open": "file, mode, buffering, encoding",
    "builtins.enumerate": "iterable, start",
    "functools.lru_cache": "maxsize, typed",
    # Captures and contexts
    "torch.cuda.graph": "cuda_graph, pool, stream, capture_error_mode",
    "torch.cuda.make_graphed_callables": _GRAPHED,
    "torch.cuda.Event": "enable_timing, blocking, interprocess, external",
    "torch.autocast": _AUTOCAST,
    "torch.amp.autocast": _AUTOCAST,
    "torch.amp.autocast_mode.autocast": _AUTOCAST,
    "torch.cuda.amp.autocast": "enabled, dtype, cache_enabled",
    "torch.set_grad_enabled": "mode",
    "torch.jit.trace": "func, example_inputs",
    "torch.jit.script": "obj",
    # Modules: how they are made, then how they are called
    "torch.nn.DataParallel": "module, device_ids, output_device",
    "torch.nn.parallel.DistributedDataParallel": "module, device_ids, output_device",
    "torch.nn.Embedding": "num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse",
    "torch.nn.EmbeddingBag": "num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse",
    **dict.fromkeys(("torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d", "torch.nn.SyncBatchNorm"), _BATCH_NORM),
    **dict.fromkeys(("torch.nn.LSTM", "torch.nn.GRU"), _RECURRENT),
    "torch.nn.RNN": "input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout, bidirectional",
    "torch.nn.TransformerEncoder": "encoder_layer, num_layers, norm, enable_nested_tensor, mask_check",
    **dict.fromkeys(("torch.nn.MSELoss", "torch.nn.L1Loss", "torch.nn.KLDivLoss"), _LOSS),
    **dict.fromkeys(("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss"), "weight, size_average, ignore_index, reduce, reduction"),
    "torch.nn.TransformerEncoder.forward": "src, mask, src_key_padding_mask, is_causal",
    "torch.nn.Transformer.forward":
        "src, tgt, src_mask, tgt_mask, memory_mask, src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask, "
        "src_is_causal, tgt_is_causal, memory_is_causal",
    "torch.nn.TransformerDecoder.forward":
        "tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal",
    "torch.nn.utils.weight_norm": "module, name, dim",
    "torch.nn.utils.spectral_norm": "module, name, n_power_iterations, eps, dim",
    "torch.nn.utils.parametrizations.orthogonal": "module, name, orthogonal_map, *, use_trivialization",
    # Optimizers
    **dict.fromkeys(("torch.optim.Adam", "torch.optim.AdamW"), _ADAM),
    "torch.optim.SGD": "params, lr, momentum, dampening, weight_decay, nesterov, *, maximize, foreach, differentiable, fused",
    "torch.optim.RMSprop":
        "params, lr, alpha, eps, weight_decay, momentum, centered, capturable, foreach, maximize, differentiable",
    "torch.optim.Adagrad": "params, lr, lr_decay, weight_decay, initial_accumulator_value, eps, foreach",
    "torch.optim.NAdam": "params, lr, betas, eps, weight_decay, momentum_decay, decoupled_weight_decay",
    "torch.optim.RAdam": "params, lr, betas, eps, weight_decay, decoupled_weight_decay",
    **dict.fromkeys((f"torch.optim.{name}" for name in ("Adadelta", "Adamax", "ASGD", "LBFGS", "Rprop")), "params, lr"),
    "torch.optim.swa_utils.AveragedModel": "model, device, avg_fn, multi_avg_fn, use_buffers",
    # Collectives
    "torch.distributed.all_reduce": "tensor, op, group, async_op",
    "torch.distributed.broadcast": "tensor, src, group, async_op, group_src",
    "torch.distributed.reduce": "tensor, dst, op, group, async_op, group_dst",
    "torch.distributed.all_gather": "tensor_list, tensor, group, async_op",
    "torch.distributed.all_gather_into_tensor": "output_tensor, input_tensor, group, async_op",
    "torch.distributed.reduce_scatter": "output, input_list, op, group, async_op",
    "torch.distributed.reduce_scatter_tensor": "output, input, op, group, async_op",
    "torch.distributed.all_to_all": "output_tensor_list, input_tensor_list, group, async_op",
    "torch.distributed.all_to_all_single": "output, input, output_split_sizes, input_split_sizes, group, async_op",
    "torch.distributed.gather": "tensor, gather_list, dst, group, async_op, group_dst",
    "torch.distributed.scatter": "tensor, scatter_list, src, group, async_op, group_src",
    "torch.distributed.new_group": "ranks, timeout, backend, pg_options",
}  # fmt: skip


def spelled(name: str, args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    """Return the arguments of a call so that each can be read by its place, up to the first that is left out, and by its name."""
    known = SIGNATURES.get(_HOME.sub(r"\1", name))
    if known is None:
        return args, kwargs
    names = signature(known).positional
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    placed = list(args)
    for parameter in names[len(args) :]:
        if parameter not in kwargs:
            break
        placed.append(kwargs[parameter])
    return placed, named
