"""What torch's functions and tensor methods do to values, and which of them break or freeze under capture."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
    Class,
    External,
    Function,
    Host,
    Instance,
    Method,
    Native,
    Object,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    device,
    fresh,
    is_none,
    mix,
    number,
    origins_of,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library import python
from cudagraph_skill.check.library.torch import objects
from cudagraph_skill.check.library.torch import operations as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

_FLOATS = {"torch.float32", "torch.float", "torch.float16", "torch.half", "torch.bfloat16", "torch.float64", "torch.double"}
_INTS = {"torch.int64", "torch.long", "torch.int32", "torch.int", "torch.int16", "torch.int8", "torch.uint8", "torch.short"}
_DTYPES = {**dict.fromkeys(_FLOATS, "float"), **dict.fromkeys(_INTS, "int"), "torch.bool": "bool"}
_ALIASES = {"torch.functional.": "torch.", "torch._C._nn.": "torch.nn.functional.", "torch.nn.modules.": "torch.nn.",
            "torch._refs.": "torch.", "torch.ops.aten.": "torch.", "torch.nn.parameter.": "torch.nn."}  # fmt: skip
_CHANGES = {"device": "cuda", "cuda": "cuda", "cpu": "cpu"}


def named(name: str) -> Value:
    """A name of a library, spelled as its package spells it."""
    for alias, real in _ALIASES.items():
        if name.startswith(alias):
            return External(real + name[len(alias) :].split(".", 1)[-1] if "modules" in alias else real + name[len(alias) :])
    if name == "math" or name.startswith("np."):
        return External(name)
    return External(name)


# Attributes -----------------------------------------------------------------------------------------------------------


def attribute(machine: Machine, owner: Value, name: str, node: ast.AST) -> Value:
    """What an attribute of something that is not the user's is."""
    if isinstance(owner, External):
        return _of_external(owner, name)
    if isinstance(owner, Tensor):
        return _of_tensor(machine, owner, name, node)
    if isinstance(owner, Object):
        return objects.attribute(machine, owner, name, node)
    if isinstance(owner, Host):
        return _of_host(owner, name)
    if isinstance(owner, Array):
        if name in {"shape", "size", "ndim", "dtype"}:
            return Host("size" if name == "shape" else "number", sym=mix(name, owner.sym))
        return Array(owner.ndim, owner.sym, owner.origins) if name == "T" else Method(owner, name)
    if isinstance(owner, Sequence):
        return _of_sequence(machine, owner, name)
    if isinstance(owner, Class):
        return objects.of_class(machine, owner, name)
    if isinstance(owner, (Function, Partial)) and name == "__name__":
        return Host("str", sym=mix("name", owner.sym))
    if type(owner) is Value or isinstance(owner, (Function, Partial, Native)):
        return Value(mix("attribute", owner.sym, name), owner.origins)
    return Method(owner, name)


def _of_external(owner: External, name: str) -> Value:
    full = f"{owner.name}.{name}"
    if full in _DTYPES:
        return Host("dtype", full, mix("dtype", full))
    if full in {"math.pi", "math.e", "math.inf", "torch.pi", "torch.inf", "numpy.pi", "numpy.inf"}:
        return const({"pi": 3.141592653589793, "e": 2.718281828459045, "inf": float("inf")}[name])
    if full == "torch.Tensor.apply":
        return External(full)
    return named(full)


def _of_tensor(machine: Machine, owner: Tensor, name: str, node: ast.AST) -> Value:
    memory = min(owner.storages)
    if name in {"shape", "_shape"}:
        return Host("size", sym=mix("shape", owner.ndim, owner.first))
    if name == "device":
        return device(owner.device)
    if name in {
        "dtype",
        "layout",
        "grad_fn",
        "requires_grad",
        "is_leaf",
        "is_cuda",
        "is_cpu",
        "is_sparse",
        "names",
        "itemsize",
    }:
        known = {"is_cuda": owner.on_gpu, "is_cpu": not owner.on_gpu, "is_sparse": owner.layout == "sparse"}.get(name)
        return Host(name, sym=mix(name, owner.dtype)) if known is None else const(known)
    if name in {"ndim", "nbytes", "_version"}:
        if name == "ndim" and owner.ndim is not None:
            return const(owner.ndim)
        if name == "_version":
            return _version(machine, node)
        return number(mix(name, memory))
    if name == "grad":
        return machine.torch.grad_of(owner)
    if name in ops.VIEWS and name in {"T", "mT", "H", "mH", "data", "real", "imag"}:
        return owner.view(owner.ndim)
    return Method(owner, name)


def _version(machine: Machine, node: ast.AST) -> Value:
    if not machine.inside:
        return number()
    message = f"{quoted(node)} counts writes by Python code; a replay writes without counting, and the graph keeps the number of the capture"
    return number(origins=machine.origin("CG111", node, message))


def _of_host(owner: Host, name: str) -> Value:
    if owner.kind == "device" and name in {"type", "index"}:
        return const(owner.value) if owner.value and name == "type" else Host("str", sym=mix(name, owner.sym))
    if owner.kind == "dtype" and name in {"is_floating_point", "itemsize"}:
        return Host("bool", sym=mix(name, owner.sym))
    if (owner.known and name in {"real", "imag", "value", "name"}) or owner.kind == "clock":
        return owner
    return Method(owner, name)


def _of_sequence(machine: Machine, owner: Sequence, name: str) -> Value:
    if (
        name in {"values", "indices", "sign", "logabsdet", "Q", "R", "solution", "L", "info", "eigenvalues", "S", "U", "Vh"}
        and owner.kind == "tuple"
    ):
        items = owner.items or []
        place = 1 if name in {"indices", "logabsdet", "R", "info"} else 0
        if len(items) > place and all(isinstance(each, Tensor) for each in items):
            return items[place]
    if name == "maxlen":
        return number()
    del machine
    return Method(owner, name)


# Functions ------------------------------------------------------------------------------------------------------------


def call(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What a function of a library returns."""
    if not name.startswith(("torch.", "torchvision.", "transformer_engine.")) or name == "torch.save":
        return python.call(machine, name, args, kwargs, node)
    if name.startswith("torch.Tensor."):
        return call_method(machine, args[0], name[13:], args[1:], kwargs, node) if args else Value()
    if name.startswith("torch.cuda.") and name.endswith("Tensor") and args and isinstance(args[0], Sequence):
        machine.report("CG221", node, f"{quoted(node)} copies Python values to the GPU through unpinned memory")
        return Tensor("cuda", _data_ndim(args[0]))
    special = objects.function(machine, name, args, kwargs, node)
    if special is not None:
        return special
    last = name.rsplit(".", 1)[-1]
    if last[:1].isupper() and name != "torch.Tensor":
        made = Object(name, args, kwargs, machine.round)
        made.site, made.call = machine.site(node), node
        if last == "DistributedDataParallel" and not machine.torch.streams:
            made.slots["on default stream"] = const(True)
        return made
    if name.startswith("torch.linalg."):
        return _linalg(machine, last, args, kwargs, node)
    return operation(machine, last, args, kwargs, node, name)


def call_method(machine: Machine, receiver: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What a method of a tensor, a container or a library's object returns."""
    if isinstance(receiver, Tensor):
        return _tensor_method(machine, receiver, name, args, kwargs, node)
    if isinstance(receiver, (Object, Instance)) or type(receiver).__name__ == "Super":
        return objects.method(machine, receiver, name, args, kwargs, node)
    if isinstance(receiver, Host) and receiver.kind == "dtype":
        return Value(mix(name, receiver.sym))
    return python.method(machine, receiver, name, args, kwargs, node)


def _tensor_method(machine: Machine, owner: Tensor, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    moves = _MOVES.get(name)
    if moves is not None:
        return moves(machine, owner, args, kwargs, node)
    if name in {"backward", "register_hook", "register_post_accumulate_grad_hook", "record_stream", "pin_memory", "data_ptr",
                "untyped_storage", "storage", "apply_", "map_", "share_memory_"}:  # fmt: skip
        return objects.tensor_method(machine, owner, name, args, kwargs, node)
    return operation(machine, name, [owner, *args], kwargs, node, f"torch.Tensor.{name}")


def operation(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST, full: str) -> Value:
    """What one operation returns; `args` begin with the tensor that a method belongs to."""
    if name in ops.HOST:
        return _host_answer(name, args)
    if name in {
        "tensor",
        "as_tensor",
        "asarray",
        "from_numpy",
        "new_tensor",
        "Tensor",
        "FloatTensor",
        "LongTensor",
    }:
        return upload(machine, name, args, kwargs, node)
    tensors = [tensor for each in (*args, *kwargs.values()) for tensor in tensors_in(each)]
    on_gpu = any(tensor.on_gpu for tensor in tensors)
    if name in ops.FACTORIES or (name in ops.LIKE and args):
        return _factory(machine, name, args, kwargs, node)
    if on_gpu:
        _hazards(machine, name, args, kwargs, node, full)
    if kwargs.get("generator") is not None:
        objects.on_generator(machine, kwargs["generator"], on_gpu=on_gpu, node=node)
    if name.endswith("_") and not name.endswith("__") and args and isinstance(args[0], Tensor):
        return update(machine, args[0], [*args[1:], *kwargs.values()], node, name)
    if on_gpu and name in ops.READS:
        machine.gpu_work(node, *args)
        return (
            Host("bool" if name not in {"item", "tolist"} else "number")
            if name != "tolist"
            else Sequence("list", None, machine.round, number())
        )
    target = kwargs.get("out")
    if isinstance(target, Tensor):
        return update(machine, target, [*args, *kwargs.values()], node)
    if not tensors:
        return _without_tensors(machine, name, args, kwargs, node)
    if not on_gpu:
        return _on_cpu(machine, name, args, kwargs, node, tensors)
    machine.gpu_work(node, *args, *kwargs.values())
    return _result(machine, name, args, kwargs, tensors)


def _host_answer(name: str, args: Args) -> Value:
    owner = args[0] if args else None
    if not isinstance(owner, Tensor):
        return const(False) if name == "is_tensor" and isinstance(owner, Host) else Value(mix(name))
    if name == "is_tensor":
        return const(True)
    if name in {"dim", "ndimension"} and owner.ndim is not None:
        return const(owner.ndim)
    if name == "size" and len(args) == 1:
        return Host("size", sym=mix("shape", owner.ndim, owner.first))
    kind = "bool" if name.startswith("is_") or name == "has_names" else "number"
    return Host(kind, sym=mix(name, owner.ndim, owner.dtype, *(each.sym for each in args[1:])))


def _without_tensors(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    parts = [*args, *kwargs.values()]
    if name in ops.RANDOM and any(type(each) is Value for each in args):
        machine.gpu_work(node, *parts) if machine.inside else None
        return Tensor("")
    if name in ops.RANDOM:
        where = where_of(machine, kwargs.get("device"))
        if where != "cpu":
            machine.gpu_work(node, *parts)
            return Tensor(where, dtype="float")
        return cpu_random(machine, node, kwargs)
    if any(type(each) is Value for each in args[:1]) or name in {"cat", "stack", "concat"}:
        machine.gpu_work(node, *parts) if machine.inside else None
        return (
            Tensor("")
            if name in {"cat", "stack", "concat", "concatenate", "where"}
            else Value(mix(name, *(each.sym for each in parts)), origins_of(parts))
        )
    return Value(mix(name, *(each.sym for each in parts)), origins_of(parts))


def _seeded_here(machine: Machine, kwargs: Kwargs) -> bool:
    """Whether random numbers come from a generator that the same call makes: the same numbers each time."""
    generator = kwargs.get("generator")
    return isinstance(generator, Object) and generator.made >= machine.round


def cpu_random(machine: Machine, node: ast.AST, kwargs: Kwargs | None = None) -> Tensor:
    """Random numbers of the CPU: drawn once, at capture."""
    if _seeded_here(machine, kwargs or {}):
        return Tensor("cpu", sym=mix("seeded", getattr(node, "lineno", 0)))
    message = f"{quoted(node)} draws random numbers on the CPU: once, at capture"
    return Tensor("cpu", origins=machine.origin("CG603", node, message))


def _on_cpu(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST, tensors: list[Tensor]) -> Value:
    """An operation on CPU tensors alone: Python's work, which no replay repeats."""
    parts = [*args, *kwargs.values()]
    if name not in ops.VIEWS and name not in ops.HOST:
        for tensor in tensors:
            objects.on_host_read(machine, tensor, node)
    if name in {"item", "tolist", "is_nonzero", "__float__", "__int__", "__bool__", "__index__"}:
        return Host("number", sym=mix(name, tensors[0].sym), origins=origins_of(tensors))
    if name == "numpy":
        return Array(tensors[0].ndim, tensors[0].sym, tensors[0].origins)
    if name in ops.RANDOM and machine.inside:
        return cpu_random(machine, node, kwargs)
    made = _result(machine, name, args, kwargs, tensors)
    for tensor in tensors_in(made):
        tensor.sym = mix(name, *(each.sym for each in parts)) if name not in ops.VIEWS else tensor.sym
        tensor.origins |= origins_of(parts)
    return made


# Results --------------------------------------------------------------------------------------------------------------


def _result(machine: Machine, name: str, args: Args, kwargs: Kwargs, tensors: list[Tensor]) -> Value:
    main = args[0] if args and isinstance(args[0], Tensor) else tensors[0]
    gpu = next((tensor.device for tensor in tensors if tensor.device.startswith("cuda")), "")
    where = gpu or ("" if any(tensor.on_gpu for tensor in tensors) else "cpu")
    if name in ops.VIEWS:
        return main.view(_view_ndim(name, main, args))
    if name in ops.PARTS:
        return _parts(machine, name, main, args, kwargs)
    by_dimension = _dimension(name, args, kwargs) is not None
    if name in ops.SORTED or (name in ops.PAIRS and by_dimension and not _elementwise_pair(args)):
        ndim = main.ndim if name in {"sort", "topk", "cummax", "cummin"} or main.ndim is None else max(0, main.ndim - 1)
        pair: Args = [Tensor(where, ndim, main.dtype), Tensor(where, ndim, "int")]
        return Sequence("tuple", pair, machine.round)
    made = Tensor(where, _ndim(name, main, args, kwargs, tensors), _dtype(name, main, args, kwargs, tensors))
    if name in ops.SAME_SHAPE:
        made.first = main.first
    kept = main.layout if name in {"clone", "to"} else ""
    made.layout = "coalesced" if name == "coalesce" else "sparse" if name in {"sparse_coo_tensor", "to_sparse"} else kept
    if any(tensor.layout == "graphed" for tensor in tensors):
        made.layout = "graphed"
    if machine.inside:
        machine.born |= made.storages
    return made


def _elementwise_pair(args: Args) -> bool:
    return len(args) > 1 and isinstance(args[1], Tensor)


def _dimension(name: str, args: Args, kwargs: Kwargs) -> Value | None:
    """The argument that names a dimension, if one is given."""
    found = kwargs.get("dim") or kwargs.get("axis") or kwargs.get("dims")
    place = 2 if name in {"norm", "quantile", "nanquantile", "kthvalue", "topk"} else 1
    if found is None and len(args) > place and not isinstance(args[place], Tensor):
        found = args[place]
    return None if found is None or is_none(found) else found


def _ndim(name: str, main: Tensor, args: Args, kwargs: Kwargs, tensors: list[Tensor]) -> int | None:
    if name in ops.SCALARS_OF_LOSS:
        reduction = kwargs.get("reduction")
        return 0 if reduction is None or (isinstance(reduction, Host) and reduction.value in {"mean", "sum"}) else None
    if name in ops.REDUCE:
        return _reduced(name, main, args, kwargs)
    if name in ops.SAME_SHAPE:
        return main.ndim
    if name in ops.MORE_DIMENSIONS:
        known = [tensor.ndim for tensor in tensors]
        return None if not known or known[0] is None else known[0] + ops.MORE_DIMENSIONS[name]
    if name in {"matmul", "mm", "bmm", "einsum", "gather", "where", "index_select"}:
        return main.ndim if name == "index_select" else _where_ndim(tensors) if name == "where" else None
    if name in {"cat", "concat", "concatenate"}:
        return tensors[0].ndim
    if all(tensor.ndim is not None for tensor in tensors) and len(tensors) > 1:
        return max(tensor.ndim or 0 for tensor in tensors)
    return main.ndim if name in {"add", "sub", "mul", "div", "pow", "maximum", "minimum"} and len(tensors) == 1 else None


def _where_ndim(tensors: list[Tensor]) -> int | None:
    known = [tensor.ndim for tensor in tensors]
    return None if None in known else max(each or 0 for each in known)


def _reduced(name: str, main: Tensor, args: Args, kwargs: Kwargs) -> int | None:
    if name in {"max", "min"} and _elementwise_pair(args):
        return main.ndim
    dimension = _dimension(name, args, kwargs)
    if dimension is None:
        return 0
    keep = kwargs.get("keepdim") or (
        args[-1] if len(args) > 2 and isinstance(args[-1], Host) and args[-1].kind == "bool" else None
    )
    if main.ndim is None or (isinstance(keep, Host) and keep.value is True):
        return main.ndim
    count = len(dimension.items) if isinstance(dimension, Sequence) and dimension.items is not None else 1
    return max(0, main.ndim - count)


def _view_ndim(name: str, main: Tensor, args: Args) -> int | None:
    if name in {"detach", "contiguous", "requires_grad_", "transpose", "t", "swapaxes", "data", "alias", "retain_grad"}:
        return main.ndim
    if name in {"view", "reshape", "expand", "broadcast_to", "permute"} and len(args) > 1:
        if isinstance(args[1], Sequence):
            return len(args[1].items) if args[1].items is not None else None
        if isinstance(args[1], Host) and args[1].kind in {"size", "dtype"}:
            return main.ndim if args[1].kind == "dtype" else None
        return len(args) - 1 if all(isinstance(each, (Host, Tensor)) for each in args[1:]) else None
    if name == "unsqueeze" and main.ndim is not None:
        return main.ndim + 1
    if name in {"flatten", "ravel"}:
        return 1 if len(args) == 1 else None
    if name == "select" and main.ndim is not None:
        return max(0, main.ndim - 1)
    return None


def _dtype(name: str, main: Tensor, args: Args, kwargs: Kwargs, tensors: list[Tensor]) -> str:
    wanted = kwargs.get("dtype")
    if isinstance(wanted, Host) and wanted.kind == "dtype":
        return _DTYPES.get(str(wanted.value), "")
    if name in ops.BOOLS:
        return "bool"
    if name in ops.INTS:
        return "int"
    if name in {
        "float",
        "half",
        "bfloat16",
        "double",
        "softmax",
        "log_softmax",
        "sigmoid",
        "mean",
        "linear",
        "layer_norm",
        "embedding",
    }:
        return "float"
    if name == "where" and len(args) == 3:
        return tensors[-1].dtype if isinstance(args[2], Tensor) else "float"
    if name in ops.SAME_SHAPE or name in {
        "cat",
        "stack",
        "index_select",
        "gather",
        "masked_fill",
        "bitwise_and",
        "bitwise_or",
        "sum",
        "amax",
        "max",
        "min",
        "amin",
    }:
        return "" if name == "sum" and main.dtype == "bool" else main.dtype
    kinds = {tensor.dtype for tensor in tensors}
    return kinds.pop() if len(kinds) == 1 and kinds != {"bool"} else "float" if "float" in kinds else ""


def _parts(machine: Machine, name: str, main: Tensor, args: Args, kwargs: Kwargs) -> Value:
    ndim = main.ndim if name != "unbind" or main.ndim is None else max(0, main.ndim - 1)
    count = args[1] if len(args) > 1 else kwargs.get("chunks")
    if name == "unbind":
        known = main.first if len(args) == 1 and not kwargs and main.first is not None and main.first <= 12 else None
    elif name == "chunk" and isinstance(count, Host) and isinstance(count.value, int) and count.value <= 12:
        known = count.value
    elif isinstance(count, Sequence) and count.items is not None:
        known = len(count.items)
    else:
        known = None
    if name in {"meshgrid", "broadcast_tensors"}:
        known = len(args) if len(args) > 1 else None
    items: Args | None = None if known is None else [main.view(ndim) for _ in range(known)]
    return Sequence("rows" if name == "unbind" else "parts", items, machine.round, main.view(ndim))


def elementwise(machine: Machine, operands: Args, node: ast.AST) -> Value:
    """The result of an operator on tensors and numbers."""
    tensors = [each for each in operands if isinstance(each, Tensor)]
    if any(tensor.on_gpu for tensor in tensors):
        machine.gpu_work(node, *operands)
        made = _result(machine, "operator", operands, {}, [tensor for tensor in tensors if tensor.on_gpu])
        if isinstance(made, Tensor):
            gpu = [tensor for tensor in tensors if tensor.on_gpu]
            known = [tensor.ndim for tensor in gpu]
            made.ndim = None if None in known else max(each or 0 for each in known)
            made.first = gpu[0].first if len(gpu) == 1 or made.ndim == gpu[0].ndim else None
            both = {tensor.dtype for tensor in gpu}
            made.dtype = "bool" if both == {"bool"} and _is_logic(node) else made.dtype if made.dtype != "bool" else ""
        return made
    made = Tensor(
        "cpu",
        tensors[0].ndim if tensors else None,
        sym=mix("op", *(each.sym for each in operands)),
        origins=origins_of(operands),
    )
    for tensor in tensors:
        objects.on_host_read(machine, tensor, node)
    return made


def _is_logic(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
    return isinstance(node, (ast.UnaryOp, ast.AugAssign))


def update(machine: Machine, tensor: Tensor, args: Args, node: ast.AST, name: str = "add_") -> Value:
    """An operation in place: the same tensor, changed."""
    if tensor.on_gpu:
        if name == "set_" and min(tensor.storages) < machine.torch.mark:
            machine.report("CG303", node, f"{quoted(node)} gives the tensor new memory: a replay goes on reading the old")
        if machine.inside:
            machine.updated |= tensor.storages
            if min(tensor.storages) < machine.torch.mark:
                machine.guarded_change()
        _copies_into(machine, tensor, args, node) if name == "copy_" else None
        machine.gpu_work(node, tensor, *args)
        return tensor
    source = next((each for each in args if isinstance(each, Tensor) and each.on_gpu), None)
    if source is not None and name == "copy_":
        _download_into(machine, tensor, source, args, node)
        return tensor
    _change_on_cpu(machine, tensor, args, node, name)
    if tensor.base is not None:
        tensor.base.sym, tensor.base.origins = tensor.sym, tensor.origins
    return tensor


def _change_on_cpu(machine: Machine, tensor: Tensor, args: Args, node: ast.AST, name: str) -> None:
    if not machine.inside:
        machine.mutate(tensor, node, *args)
        if name in ops.RANDOM_IN_PLACE:
            tensor.sym = fresh()
    elif name in ops.RANDOM_IN_PLACE:
        tensor.sym = fresh()
        tensor.origins |= machine.origin("CG603", node, f"{quoted(node)} draws random numbers on the CPU: once, at capture")
    elif name in ops.RENEWS:
        tensor.sym = mix(name, *(each.sym for each in args))
        tensor.origins = origins_of(args)
    else:
        machine.mutate(tensor, node, *args)
        if min(tensor.storages) < machine.torch.mark:
            machine.mutated |= tensor.storages
            tensor.origins |= machine.origin("CG106", node, f"{quoted(node)} changes CPU memory; a replay does not repeat it")


def _uploads(machine: Machine, source: Tensor, node: ast.AST, *, waits: bool) -> None:
    """A copy from CPU memory to the GPU: captured only out of pinned memory, and without waiting."""
    if not source.pinned:
        machine.report("CG221", node, f"{quoted(node)} copies unpinned CPU memory to the GPU")
    elif waits:
        message = f"{quoted(node)} waits for a copy out of pinned memory: non_blocking=True is missing"
        machine.report("CG223", node, message, edits.keyword(node, "non_blocking", "True"))


def _copies_into(machine: Machine, tensor: Tensor, args: Args, node: ast.AST) -> None:
    """`gpu.copy_(source)`: from the CPU only out of pinned memory, and without waiting."""
    source = args[0] if args else None
    if isinstance(source, Tensor) and {source.device, tensor.device} == {"cuda", "cuda:other"}:
        machine.report("CG507", node, f"{quoted(node)} copies to another GPU")
    if isinstance(source, Tensor) and not source.on_gpu and source.device == "cpu":
        waits = not _true(args[1] if len(args) > 1 else None)
        _uploads(machine, source, node, waits=waits)


def _download_into(machine: Machine, tensor: Tensor, source: Tensor, args: Args, node: ast.AST) -> None:
    waits = not any(_true(each) for each in args if isinstance(each, Host))
    if not tensor.pinned:
        machine.report("CG224", node, f"{quoted(node)} copies a GPU tensor into unpinned CPU memory")
    elif waits:
        machine.report(
            "CG223",
            node,
            f"{quoted(node)} waits for a copy into pinned memory: non_blocking=True is missing",
            edits.keyword(node, "non_blocking", "True"),
        )
    machine.gpu_work(node, source)
    if machine.inside:
        tensor.downloaded = True
        machine.torch.downloads |= tensor.storages
    elif not waits and machine.torch.script:
        machine.torch.inflight |= tensor.storages


def _true(found: Value | None) -> bool:
    return isinstance(found, Host) and found.value is True


# Making tensors -------------------------------------------------------------------------------------------------------


def where_of(machine: Machine, found: Value | None) -> str:
    """The device that an argument names: cuda, cpu or "" for unknown."""
    if found is None or is_none(found):
        return machine.torch.default_device
    if isinstance(found, Host) and isinstance(found.value, str):
        other = found.value[5:] not in {"", "0"}
        return (
            "cpu"
            if found.value.startswith("cpu")
            else ("cuda:other" if other else "cuda")
            if found.value.startswith("cuda")
            else ""
        )
    if isinstance(found, Host) and isinstance(found.value, int) and not isinstance(found.value, bool):
        return "cuda:other" if found.value else "cuda"
    return ""


def _factory(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    _hazards(machine, name, args, kwargs, node, f"torch.{name}")
    like = args[0] if name in ops.LIKE else None
    where = like.device if isinstance(like, Tensor) and "device" not in kwargs else where_of(machine, kwargs.get("device"))
    if like is not None and not isinstance(like, Tensor) and "device" not in kwargs:
        where = ""
    if kwargs.get("generator") is not None:
        objects.on_generator(machine, kwargs["generator"], on_gpu=where != "cpu", node=node)
    ndim, first = _shape(name, args, kwargs)
    dtype = _dtype(name, like if isinstance(like, Tensor) else Tensor("cpu"), args, kwargs, [])
    made = Tensor(where, ndim, dtype, pinned=_true(kwargs.get("pin_memory")), first=first)
    made.parameter = ""
    if made.on_gpu:
        machine.gpu_work(node, *args, *kwargs.values())
        if machine.inside:
            machine.born |= made.storages
        return made
    if made.pinned:
        machine.report("CG503", node, f"{quoted(node)} allocates pinned memory at every call of the Python code")
    if name in ops.RANDOM and _seeded_here(machine, kwargs):
        made.sym = mix("seeded", getattr(node, "lineno", 0))
    elif name in ops.RANDOM and machine.inside:
        made.origins = machine.origin("CG603", node, f"{quoted(node)} draws random numbers on the CPU: once, at capture")
    else:
        made.sym = mix(name, *(each.sym for each in (*args, *kwargs.values()))) if name not in ops.RANDOM else made.sym
        made.origins = origins_of([*args, *kwargs.values()])
    return made


def _shape(name: str, args: Args, kwargs: Kwargs) -> tuple[int | None, int | None]:
    """Number of dimensions and first size of a new tensor."""
    if name in {"arange", "range", "linspace", "logspace", "randperm"} or name.endswith("_window"):
        return 1, None
    if name.endswith("_like"):
        like = args[0] if args else None
        return (like.ndim, like.first) if isinstance(like, Tensor) else (None, None)
    if name == "eye":
        return 2, None
    sizes = args[1:] if name.startswith("new_") else args
    if name == "randint":
        sizes = [each for each in sizes if not isinstance(each, Host)] or sizes[-1:]
        sizes = [kwargs["size"]] if "size" in kwargs else sizes
    if name in {"full", "new_full"}:
        sizes = sizes[:1] or ([kwargs["size"]] if "size" in kwargs else [])
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        items = sizes[0].items
        return (None, None) if items is None else (len(items), _size(items))
    if len(sizes) == 1 and (
        not isinstance(sizes[0], Host) or sizes[0].kind == "size" or (sizes[0].known and isinstance(sizes[0].value, tuple))
    ):
        return None, None
    return (len(sizes), _size(sizes)) if all(isinstance(each, Host) for each in sizes) else (None, None)


def _size(items: Args) -> int | None:
    first = items[0] if items else None
    return first.value if isinstance(first, Host) and isinstance(first.value, int) else None


def upload(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.tensor`, `as_tensor`, `new_tensor` and their like: a tensor made of Python values."""
    like = args[0] if name == "new_tensor" and args else None
    data = args[1] if name == "new_tensor" and len(args) > 1 else args[0] if args else kwargs.get("data", Value())
    where = like.device if isinstance(like, Tensor) and "device" not in kwargs else where_of(machine, kwargs.get("device"))
    if isinstance(data, Tensor):
        if "device" in kwargs and data.on_gpu != (where != "cpu"):
            return move(machine, data, where, node, waits=True)
        if name == "tensor" and data.on_gpu:
            return elementwise(machine, [data], node)
        return data.view(data.ndim)
    ndim = _data_ndim(data)
    if any(tensor.on_gpu for tensor in tensors_in(data)):
        machine.report("CG201", node, f"{quoted(node)} reads each GPU tensor of the list on the host")
    made = Tensor(where, ndim, _data_dtype(data, kwargs), sym=mix(name, data.sym), origins=origins_of([data]))
    made.pinned = _true(kwargs.get("pin_memory"))
    if isinstance(data, Sequence) and data.items is not None:
        made.sym = mix(name, *(each.sym for each in data.items))
        made.first = len(data.items)
    if made.on_gpu and (where == "cuda" or "device" in kwargs or name == "new_tensor"):
        edit = edits.made_on_gpu(node) if name == "tensor" and ndim == 0 else None
        machine.report("CG221", node, f"{quoted(node)} copies Python values to the GPU through unpinned memory", edit)
        machine.gpu_work(node, data)
    return made


def _data_ndim(data: Value) -> int | None:
    if isinstance(data, Host) and data.kind not in {"", "size"}:
        return 0
    if isinstance(data, Array):
        return data.ndim
    depth = 0
    while isinstance(data, Sequence):
        depth += 1
        inner = data.each()
        if not inner:
            return depth
        data = inner[0]
    return depth if depth and isinstance(data, (Host, Tensor)) else None


def _data_dtype(data: Value, kwargs: Kwargs) -> str:
    wanted = kwargs.get("dtype")
    if isinstance(wanted, Host) and wanted.kind == "dtype":
        return _DTYPES.get(str(wanted.value), "")
    while isinstance(data, Sequence):
        inner = data.each()
        data = inner[0] if inner else Value()
    if isinstance(data, Host) and data.known:
        return {bool: "bool", int: "int", float: "float"}.get(type(data.value), "")
    return ""


# Moving tensors -------------------------------------------------------------------------------------------------------


def move(machine: Machine, tensor: Tensor, where: str, node: ast.AST, *, waits: bool) -> Tensor:
    """A copy of a tensor on another device, or the tensor itself."""
    if {where, tensor.device} == {"cuda", "cuda:other"}:
        machine.report("CG507", node, f"{quoted(node)} moves work to another GPU")
        machine.gpu_work(node, tensor)
        return Tensor(where, tensor.ndim, tensor.dtype)
    if where == "cpu" and tensor.on_gpu:
        if waits:
            machine.report("CG203", node, f"{quoted(node)} copies a GPU tensor to the host and waits for it")
        machine.gpu_work(node, tensor)
        made = Tensor("cpu", tensor.ndim, tensor.dtype, pinned=not waits)
        made.downloaded = machine.inside and not waits
        machine.torch.downloads |= made.storages if made.downloaded else frozenset()
        made.first = tensor.first
        return made
    if where != "cpu" and tensor.device == "cpu":
        _uploads(machine, tensor, node, waits=waits)
        machine.gpu_work(node, tensor)
        made = Tensor(where, tensor.ndim, tensor.dtype)
        made.first, made.parameter = tensor.first, tensor.parameter
        return made
    same = tensor.view(tensor.ndim)
    same.first, same.optional, same.parameter = tensor.first, tensor.optional, tensor.parameter
    return same


def _to(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    where: str | None = None
    dtype = owner.dtype
    for each in (*args, *kwargs.values()):
        if isinstance(each, Tensor):
            where, dtype = each.device, each.dtype
        elif isinstance(each, Host) and each.kind == "dtype":
            dtype = _DTYPES.get(str(each.value), "")
        elif isinstance(each, Host) and (each.kind == "device" or isinstance(each.value, str)):
            where = where_of(machine, each)
    if "device" in kwargs and where is None and not is_none(kwargs["device"]):
        where = where_of(machine, kwargs["device"])
    waits = not _true(kwargs.get("non_blocking")) and not any(_true(each) for each in args)
    unknown = where is None and any(type(each) is Value for each in args)
    if unknown and owner.device == "cpu":
        return Tensor("", owner.ndim, dtype, owner.storages, owner.sym, owner.origins)
    moved = (
        move(machine, owner, where, node, waits=waits)
        if where is not None and not (where == "" and owner.device != "cpu")
        else owner.view(owner.ndim)
    )
    if dtype != owner.dtype and moved.storages == owner.storages:
        machine.gpu_work(node, owner) if owner.on_gpu else None
        fresh_copy = Tensor(owner.device, owner.ndim, dtype, None, owner.sym, owner.origins)
        fresh_copy.first = owner.first
        return fresh_copy
    moved.dtype = dtype
    moved.first = owner.first
    return moved


def _cuda(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    waits = not _true(kwargs.get("non_blocking")) and not any(_true(each) for each in args)
    return move(machine, owner, where_of(machine, args[0]) if args and not _true(args[0]) else "cuda", node, waits=waits)


def _cpu(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    return move(machine, owner, "cpu", node, waits=True)


def _type(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if not args and not kwargs:
        return Host("str")
    wanted = args[0] if args else None
    name = wanted.name if isinstance(wanted, External) else wanted.value if isinstance(wanted, Host) else ""
    if isinstance(name, str) and name.endswith("Tensor"):
        return move(machine, owner, "cuda" if "cuda" in name else "cpu", node, waits=True)
    return _to(machine, owner, args, kwargs, node)


def _numpy(machine: Machine, owner: Tensor, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, kwargs
    if owner.on_gpu:
        machine.report("CG203", node, f"{quoted(node)} {ops.ALWAYS['numpy'].why}")
    return Array(owner.ndim, owner.sym, owner.origins)


_MOVES: dict[str, Callable[[Machine, Tensor, Args, Kwargs, ast.AST], Value]] = {
    "to": _to, "cuda": _cuda, "cpu": _cpu, "type": _type, "type_as": _to, "numpy": _numpy,
}  # fmt: skip


# Hazards of operations ------------------------------------------------------------------------------------------------


def _hazards(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST, full: str) -> None:
    """Report what an operation on GPU tensors does that a capture cannot hold."""
    if not machine.inside:
        return
    fails = ops.ALWAYS.get(name)
    main = args[0] if args else None
    if name == "equal" and len(args) > 1 and isinstance(main, Tensor) and isinstance(args[1], Tensor) and main is args[1]:
        fails = None  # the same tensor: answered without looking
    if fails is not None and not (isinstance(main, Tensor) and not main.on_gpu) and not _innocent(name, main, full):
        machine.report(fails.hazard, node, f"{quoted(node)} {fails.why}")
    check = _CHECKS.get(name)
    if check is not None:
        check(machine, args, kwargs, node)
    if name in {"inv_ex", "cholesky_ex", "solve_ex"} and _true(kwargs.get("check_errors")):
        machine.report("CG219", node, f"{quoted(node)} {ops.LINALG['inv'].why}: check_errors=True")
    if name in {"prod", "cumprod"}:
        machine.torch.products.append((node, machine.site(node), machine.via()))
    if name in ops.NUMBERS:
        _number_arguments(machine, name, args, kwargs, node)
    if name in ops.SIZES:
        _sizes(machine, name, args, kwargs, node, "CG218", "a size")
    if name in ops.PLACES:
        _sizes(machine, name, args, kwargs, node, "CG216", "a place")
    if name.startswith("sparse_") or full.startswith("torch.sparse."):
        sorted_out = "csr" in name or any(tensor.layout in {"csr", "coalesced"} for tensor in tensors_in(main or Value()))
        if (not sorted_out or name == "sum") and name not in {
            "sparse_compressed_tensor",
            "softmax",
            "sparse_coo_tensor",
            "sparse_mask",
        }:
            machine.report("CG225", node, f"{quoted(node)} builds or multiplies a sparse layout, which waits for the GPU")


def _innocent(name: str, main: Value | None, full: str) -> bool:
    return (
        name == "cholesky_inverse"
        or (name == "coalesce" and isinstance(main, Tensor) and main.layout == "coalesced")
        or not full
    )


def _gpu_scalars(found: Value | None) -> bool:
    """Whether a value holds a GPU tensor that could stand for one number."""
    return found is not None and any(tensor.on_gpu and not tensor.ndim for tensor in tensors_in(found))


def _number_arguments(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    places, names = ops.NUMBERS[name]
    given = [args[place] for place in places if place < len(args)] + [kwargs[each] for each in names if each in kwargs]
    if name in {"norm", "normal_", "uniform_"} and name == "norm":
        given = [each for each in given if isinstance(each, Tensor)]
    if any(isinstance(each, Tensor) and each.on_gpu and (each.ndim == 0 or each.ndim is None) for each in given):
        machine.report("CG217", node, f"{quoted(node)} needs the value of a GPU tensor as a Python number")


def _sizes(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST, hazard: str, what: str) -> None:
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    own = args[1:] if name not in ops.FACTORIES else args
    given = [
        *own,
        *(value for key, value in kwargs.items() if key not in {"out", "value", "input", "device", "dtype", "fill_value"}),
    ]
    if name in {"pad", "interpolate"}:
        given = given[:1] if not kwargs or name == "pad" else given
    if any(_gpu_scalars(each) for each in given) and method | True:
        machine.report(hazard, node, f"{quoted(node)} needs the value of a GPU tensor as {what}")


def _where(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    if len(args) == 1 and not kwargs:
        machine.report("CG211", node, f"{quoted(node)} with one argument {ops.ALWAYS['nonzero'].why}")
    for each in args[1:]:
        if isinstance(each, Tensor) and each.device == "cpu":
            machine.report("CG221", node, f"{quoted(node)} copies a CPU tensor to the GPU")


def _histc(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    if "max" not in kwargs and len(args) < 4:
        machine.report("CG212", node, f"{quoted(node)} without min and max reads the range on the host")


def _repeat_interleave(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    repeats = args[1] if len(args) > 1 else kwargs.get("repeats") or (args[0] if args and len(args) == 1 else None)
    if isinstance(repeats, Tensor) and repeats.on_gpu and "output_size" not in kwargs:
        machine.report("CG213", node, f"{quoted(node)} sums the repeats on the host: output_size= is missing")


def _one_hot(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    given = args[1] if len(args) > 1 else kwargs.get("num_classes")
    if given is None or (isinstance(given, Host) and given.value == -1):
        machine.report("CG214", node, f"{quoted(node)} reads the largest class on the host: num_classes is missing")


def _normal(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    spread = args[1] if len(args) > 1 else kwargs.get("std")
    if isinstance(spread, Tensor) and spread.on_gpu:
        machine.report("CG229", node, f"{quoted(node)} checks the tensor of standard deviations on the host")


def _segment_reduce(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    del args
    if not _true(kwargs.get("unsafe")):
        machine.report("CG227", node, f"{quoted(node)} checks the lengths on the host: unsafe=True is missing")


def _quantize(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    if any(isinstance(each, Tensor) for each in (*args[1:2], kwargs.get("scale"))):
        machine.report("CG201", node, f"{quoted(node)} reads its scale on the host")


def _isin(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    """Many test elements are sorted out by unique(): measured against the bound in torch's source."""
    del kwargs
    sizes = [each.first for each in args[:2] if isinstance(each, Tensor) and each.ndim == 1 and each.first is not None]
    if len(sizes) == 2 and sizes[1] >= 10 * sizes[0] ** 0.145:
        machine.report(
            "CG212",
            node,
            f"{quoted(node)} looks for so many elements that it sorts out unique ones, whose number the host reads",
        )


def _searchsorted(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    del args
    if kwargs.get("sorter") is not None:
        machine.report("CG201", node, f"{quoted(node)} checks its sorter on the host")


def _matrix_power(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    power = args[1] if len(args) > 1 else kwargs.get("n")
    if isinstance(power, Host) and isinstance(power.value, int) and power.value < 0:
        machine.report("CG219", node, f"{quoted(node)} inverts, and {ops.LINALG['inv'].why}")


def _variance(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    given = args[2] if len(args) > 2 else kwargs.get("var")
    if isinstance(given, Tensor):
        machine.report("CG202", node, f"{quoted(node)} asks on the host whether a variance is negative")


def _index_put(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    del kwargs
    masks = args[1].each() if len(args) > 1 and isinstance(args[1], Sequence) else []
    if any(isinstance(each, Tensor) and each.dtype == "bool" and each.on_gpu for each in masks):
        machine.report("CG210", node, f"{quoted(node)} writes through a boolean mask: the positions are read on the host")


def _multiply_sparse(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    del kwargs
    if any(isinstance(each, Tensor) and each.layout == "sparse" for each in args):
        machine.report("CG225", node, f"{quoted(node)} multiplies a sparse tensor, which waits for the GPU")


_CHECKS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], None]] = {
    "where": _where, "histc": _histc, "repeat_interleave": _repeat_interleave, "one_hot": _one_hot, "normal": _normal,
    "segment_reduce": _segment_reduce, "gaussian_nll_loss": _variance, "isin": _isin, "quantize_per_tensor": _quantize, "searchsorted": _searchsorted, "matrix_power": _matrix_power, "index_put_": _index_put, "index_put": _index_put,
    "mm": _multiply_sparse, "matmul": _multiply_sparse,
}  # fmt: skip


def _linalg(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    gpu = any(tensor.on_gpu for each in args for tensor in tensors_in(each))
    fails = ops.LINALG.get(name)
    if fails is not None and gpu and machine.inside:
        machine.report(fails.hazard, node, f"{quoted(node)} {fails.why}")
    if name.endswith("_ex") and gpu and _true(kwargs.get("check_errors")):
        machine.report("CG219", node, f"{quoted(node)} {ops.LINALG['inv'].why}: check_errors=True")
    if name in {"norm", "matrix_norm"}:
        order = kwargs.get("ord") or (args[1] if len(args) > 1 else None)
        if isinstance(order, Host) and (order.value == "nuc" or (order.value in {2, -2} and name == "matrix_norm")) and gpu:
            machine.report("CG220", node, f"{quoted(node)} needs singular values: it {ops.LINALG['svdvals'].why}")
    if name in {"eigh", "eig", "lstsq", "svd", "slogdet", "qr", "lu_factor"} or name.endswith("_ex"):
        machine.gpu_work(node, *args)
        where = next((tensor.device for each in args for tensor in tensors_in(each)), "")
        return Sequence("tuple", [Tensor(where), Tensor(where), *([Tensor(where)] if name == "svd" else [])], machine.round)
    return (
        operation(
            machine,
            "inv_" if name == "inv" else f"linalg_{name}" if name in ops.ALWAYS or name == "norm" else name,
            args,
            kwargs,
            node,
            f"torch.linalg.{name}",
        )
        if name != "inv"
        else operation(machine, "pinned_inverse", args, kwargs, node, "")
    )


# Indexing -------------------------------------------------------------------------------------------------------------


def _index_parts(found: Value) -> Args:
    if not isinstance(found, Sequence):
        return [found]
    several = any(
        isinstance(each, Sequence) and each.kind == "slice" for each in found.each()
    )  # a list of slices is a tuple too
    return found.each() if found.kind == "tuple" or (found.kind == "list" and several) else [found]


def _index_hazard(machine: Machine, owner: Tensor, found: Value, node: ast.AST, *, writing: Value | None = None) -> None:
    """Report an index that the host has to read."""
    if not owner.on_gpu or not machine.inside:
        return
    parts = _index_parts(found)
    for part in parts:
        if isinstance(part, Tensor) and part.on_gpu:
            if part.dtype == "bool":
                if not isinstance(writing, Host):
                    machine.report(
                        "CG210", node, f"{quoted(node)} selects by a boolean mask: the number of hits is read on the host"
                    )
            elif part.ndim == 0:
                machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as an index")
        elif isinstance(part, Tensor) and part.device == "cpu" and part.ndim != 0:
            machine.report("CG222", node, f"{quoted(node)} copies an index from the CPU to the GPU")
        elif isinstance(part, Array):
            machine.report("CG222", node, f"{quoted(node)} copies a numpy index to the GPU")
        elif isinstance(part, Sequence) and part.kind == "slice":
            if any(isinstance(each, Tensor) and each.on_gpu for each in part.each()):
                machine.report("CG216", node, f"{quoted(node)} needs the value of a GPU tensor as the bound of a slice")
        elif isinstance(part, Sequence) and part.kind in {"list", "range", "set"}:
            _list_index(machine, part, node)


def _list_index(machine: Machine, part: Sequence, node: ast.AST) -> None:
    if any(isinstance(each, Tensor) and each.on_gpu for each in part.each()):
        machine.report("CG216", node, f"{quoted(node)} reads the GPU tensors of an index list on the host")
    else:
        machine.report("CG222", node, f"{quoted(node)} copies an index list from the host to the GPU")


def index(machine: Machine, owner: Tensor, found: Value, node: ast.AST) -> Value:
    """What `tensor[index]` is."""
    _index_hazard(machine, owner, found, node)
    parts = _index_parts(found)
    if owner.on_gpu:
        machine.sink(*parts, *(each for part in parts if isinstance(part, Sequence) for each in part.each()), node=node)
        if any(isinstance(each, Tensor) for each in parts):
            machine.gpu_work(node, owner, *[each for each in parts if isinstance(each, Tensor)])
    fancy = any(isinstance(each, (Tensor, Array)) or (isinstance(each, Sequence) and each.kind != "slice") for each in parts)
    ndim = _indexed_ndim(owner, parts)
    if not fancy:
        made = owner.view(ndim)
        made.origins |= origins_of(parts) if not owner.on_gpu else NONE
        made.sym = mix("index", owner.sym, *(each.sym for each in parts))
        return made
    new = Tensor(owner.device, ndim, owner.dtype, sym=mix("index", owner.sym, found.sym), origins=owner.origins)
    if machine.inside:
        machine.born |= new.storages
    return new


def _indexed_ndim(owner: Tensor, parts: Args) -> int | None:
    if owner.ndim is None:
        return None
    ndim = owner.ndim
    for part in parts:
        if is_none(part):
            ndim += 1
        elif isinstance(part, Host) and part.value is ...:
            continue
        elif isinstance(part, Host):
            if part.kind in {"", "bool", "size"}:
                return None
            ndim -= 1
        elif isinstance(part, Tensor):
            if part.ndim is None or part.dtype in {"bool", ""}:
                return None if part.dtype != "bool" else 1 if len(parts) == 1 and part.ndim == owner.ndim else None
            ndim += part.ndim - 1
        elif isinstance(part, Sequence) and part.kind == "slice":
            continue
        elif not isinstance(part, Sequence):
            return None
    return max(0, ndim)


def set_index(machine: Machine, owner: Tensor, found: Value, new: Value, node: ast.AST) -> None:
    """Run `tensor[index] = new`."""
    _index_hazard(machine, owner, found, node, writing=new)
    if owner.on_gpu:
        _number_into(machine, owner, found, new, node)
        if isinstance(new, Tensor) and new.device == "cpu" and new.ndim != 0:
            machine.report("CG221", node, f"{quoted(node)} = … copies unpinned CPU memory to the GPU")
        machine.gpu_work(node, owner, new, *_index_parts(found))
        machine.sink(*[each for part in _index_parts(found) if isinstance(part, Sequence) for each in part.each()], node=node)
    elif isinstance(new, Tensor) and new.on_gpu:
        _download_into(machine, owner, new, [], node)
    else:
        owner.sym = mix("set", found.sym, new.sym)
        owner.origins |= origins_of([found, new])


def _number_into(machine: Machine, owner: Tensor, found: Value, new: Value, node: ast.AST) -> None:
    """`tensor[0, 0] = 1.0` and `tensor[ids] = 0`: a number for a single element, or for indices, comes from the CPU."""
    parts = _index_parts(found)
    if isinstance(new, Tensor):
        if new.device == "cpu" and new.ndim == 0:
            machine.report("CG221", node, f"{quoted(node)} = … copies a CPU tensor to the GPU")
        return
    if not isinstance(new, Host):
        return
    by_ids = any(isinstance(each, Tensor) and each.on_gpu and each.dtype == "int" and each.ndim != 0 for each in parts)
    numbers = [each for each in parts if isinstance(each, Host) and each.kind in {"int", "number", "extent"}]
    if by_ids or (owner.ndim is not None and len(numbers) == len(parts) == owner.ndim):
        what = "these indices" if by_ids else "a single element"
        machine.report(
            "CG221",
            node,
            f"{quoted(node)} = … copies a Python number for {what} to the GPU: use a GPU tensor, or fill_ on a slice",
        )


def update_index(machine: Machine, owner: Tensor, found: Value, new: Value, node: ast.AugAssign) -> None:
    """Run `tensor[index] op= new`."""
    parts = _index_parts(found)
    if owner.on_gpu and any(isinstance(each, Tensor) and each.dtype == "bool" and each.on_gpu for each in parts):
        machine.report(
            "CG210", node, f"{quoted(node)} reads and writes through a boolean mask: the positions are read on the host"
        )
    else:
        _index_hazard(machine, owner, found, node)
    update(machine, owner, [new, *parts], node)
    machine.sink(*[each for part in parts if isinstance(part, Sequence) for each in part.each()], node=node)
