"""Call Python's standard library."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cudagraph_skill.check.interpreter.items import items_of, sample_item
from cudagraph_skill.check.interpreter.symbols import mix
from cudagraph_skill.check.interpreter.values import (
    NONE,
    Array,
    Function,
    Host,
    Instance,
    Mapping,
    Method,
    Native,
    Object,
    Origin,
    Partial,
    Sequence,
    Tensor,
    Value,
    const,
    number,
    origins_of,
    quoted,
    tensors_in,
)
from cudagraph_skill.check.library import builtins, containers

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]


def rank_origin(machine: Machine, node: ast.AST) -> frozenset[Origin]:
    """Return a mark for a value that differs from rank to rank."""
    return frozenset((Origin("CG706", *machine.site(node), "depends on the rank", ()),))


def environment(machine: Machine, key: Value, node: ast.AST) -> Value:
    """Return a variable of the environment."""
    machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
    rank = isinstance(key, Host) and key.value in {"RANK", "LOCAL_RANK"}
    return Host("str", sym=mix("environment", key.sym), origins=rank_origin(machine, node) if rank else NONE)


def of_context_variable(machine: Machine, owner: Object, name: str, args: Args, node: ast.AST) -> Value:
    """Read or write a context variable."""
    if name == "set":
        machine.write(owner, "value", args[0] if args else Value(), node)
        return Value()
    default = owner.kwargs.get("default", args[0] if args else Value())
    return machine.read(owner, "value", owner.slots.get("value", default), node)


def of_thread(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Follow the function that a thread or an executor runs."""
    target = owner.kwargs.get("target") if owner.name == "threading.Thread" else args[0] if args else None
    if name in {"start", "submit", "map"} and target is not None:
        before = machine.gpu_calls
        given = owner.kwargs.get("args") if owner.name == "threading.Thread" else None
        inner = given.each() if isinstance(given, Sequence) else [arg for arg in args[1:] if name == "submit"] or [Tensor()]
        reporting, machine.reporting = machine.reporting, False
        machine.call(target, inner, {}, node)
        machine.reporting = reporting
        if machine.gpu_calls > before:
            machine.report("CG408", node, f"{quoted(node)} lets another thread use the GPU during the capture")
    if name in {"submit", "map", "result", "join"}:
        return Object("concurrent.futures.Future", args, kwargs, machine.round)
    return const(None)


CLOCKS = {"time.time", "time.perf_counter", "time.monotonic", "time.process_time", "time.time_ns", "time.perf_counter_ns",
           "time.monotonic_ns", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today",
           "timeit.default_timer", "time.thread_time"}  # fmt: skip

ENVIRONMENT = {"os.getenv", "os.environ.get", "json.load", "yaml.safe_load", "pathlib.Path.read_text"}


def clock(machine: Machine, node: ast.AST) -> Value:
    """Return the time, as a function of CLOCKS tells it."""
    message = f"{quoted(node)} is read once, at capture: every replay uses that moment"
    return Host("clock", origins=machine.origin("CG104", node, message))


def environment_call(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a function of ENVIRONMENT reads."""
    machine.report("CG113", node, f"{quoted(node)} is read at capture only; replays keep what it said then")
    if name in {"os.getenv", "os.environ.get"}:  # a variable is taken to be unset: switches for debugging are
        return args[1] if len(args) > 1 else kwargs.get("default", const(None))
    return Host("str", sym=mix(name, *(arg.sym for arg in args)))


def random_call(machine: Machine, name: str, args: Args, node: ast.AST) -> Value:
    """Return what a function of `random`, `secrets` or `uuid` returns."""
    if name.rsplit(".", 1)[-1] in {"Random", "SystemRandom"}:
        return Object("random.Random", args, {}, machine.round)
    return drawn(machine, "CG601", name.rsplit(".", 1)[-1], args, node)


def drawn(machine: Machine, hazard: str, how: str, args: Args, node: ast.AST) -> Value:
    """Return a random number of the host, or an item that one picks."""
    if how in {"seed", "setstate", "getstate"}:
        return const(None)
    origins = machine.origin(hazard, node, f"{quoted(node)} draws a random number on the host: once, at capture")
    if how in {"choice", "choices", "sample", "shuffle", "permutation"} and args:
        picked = sample_item(machine, args[0], node)
        if not isinstance(picked, (Host, Array)) and type(picked) is not Value:
            machine.emit(origins)
        if how == "shuffle":
            machine.emit(origins)
            return const(None)
        if how in {"choices", "sample"}:
            made = Sequence("list", None, machine.round, Host(origins=origins) if isinstance(picked, Host) else picked)
            made.origins = origins
            return made
        return Host(origins=origins) if isinstance(picked, Host) else picked.marked(origins)
    return number(origins=origins)


def math_call(machine: Machine, name: str, args: Args, node: ast.AST) -> Value:
    """Return what a function of `math` returns."""
    for arg in args:
        if isinstance(arg, Tensor):
            return builtins.read_number(machine, arg, node, name)
    known = [arg.value for arg in args if isinstance(arg, Host) and arg.known and isinstance(arg.value, (int, float))]
    function = getattr(math, name[5:], None) if name.startswith("math.") else None
    if len(known) == len(args) and callable(function) and all(abs(arg) < 1e6 for arg in known):
        try:
            return const(function(*known), origins_of(args))
        except (TypeError, ValueError, OverflowError):
            return number(origins=origins_of(args))
    return number(mix(name, *(arg.sym for arg in args)), origins_of(args))


def logging_call(machine: Machine, name: str, args: Args, node: ast.AST) -> Value:
    """Return a logger, or log a message."""
    last = name.rsplit(".", 1)[-1]
    if last in {"getLogger", "Logger"}:
        return Object("logging.Logger", args, {}, machine.round)
    return logged(machine, last, args, node)


def logged(machine: Machine, how: str, args: Args, node: ast.AST) -> Value:
    """Return a line in a log: from warnings on, its arguments are formatted under Python's default level."""
    formats = {"DEBUG": {"debug", "info"}, "INFO": {"info"}}.get(machine.torch.log_level, set())
    if how in {"warning", "error", "critical", "exception", "warn"} | formats:
        for arg in args:
            containers.read_text(machine, arg, node)
    if how in {"debug", "info", "warning", "error", "critical", "exception", "log", "warn", "warning_once"}:
        machine.report("CG108", node, f"{quoted(node)} runs at capture only, not at a replay")
        return const(None)
    return Value(mix("logging", how))


def _partial(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, node
    return Partial(args[0], args[1:], kwargs) if args else Value()


def _identity_decorator(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del machine, args, kwargs, node
    return Native(lambda given, _: given[0] if given else Value())


def _cache(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del node
    if args and isinstance(args[0], Function):
        args[0].memo = {}
        return args[0]
    return Object("functools.lru_cache", args, kwargs, machine.round)


def _reduce(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if len(args) < 2:
        return Value()
    items = items_of(machine, args[1], node)
    rest = (items or [sample_item(machine, args[1], node)] * 2)[:12]
    result = args[2] if len(args) > 2 else rest.pop(0) if rest else Value()
    for item in rest:
        result = machine.call(args[0], [result, item], {}, node)
    return result


def _copied(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if not args:
        return Value()
    value = args[0]
    if isinstance(value, Tensor):
        return machine.call(Method(value, "clone"), [], {}, node)
    return containers.copy_of(machine, value)


def _islice(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    if any(isinstance(arg, Tensor) and arg.on_gpu for arg in args[1:]):
        machine.report("CG207", node, f"{quoted(node)} needs the value of a GPU tensor as a count")
    return Sequence("iterator", None, machine.round, sample_item(machine, args[0], node) if args else None)


def _repeat(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if any(isinstance(arg, Tensor) and arg.on_gpu for arg in (*args[1:], *kwargs.values())):
        machine.report("CG207", node, f"{quoted(node)} needs the value of a GPU tensor as a count")
    return Sequence("iterator", None, machine.round, args[0] if args else None)


def _iterator(name: str) -> Callable[[Machine, Args, Kwargs, ast.AST], Value]:
    def make(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        del node
        return Object(name, args, kwargs, machine.round)

    return make


def _namespace(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del args, node
    made = Object("types.SimpleNamespace", [], {}, machine.round)
    made.slots.update(kwargs)
    return made


def _saved(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    values = [*args, *kwargs.values()]
    if any(tensor.on_gpu for value in values for tensor in tensors_in(value)) or any(_holds_tensors(value) for value in values):
        machine.report("CG234", node, f"{quoted(node)} copies GPU tensors to the host to write them")
    return Value()


def _holds_tensors(value: Value) -> bool:
    return isinstance(value, (Mapping, Sequence)) and any(tensor.on_gpu for tensor in tensors_in(value))


def _threaded(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del node
    return Object("threading.Thread", args, kwargs, machine.round)


def _executor(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    del node
    return Object("concurrent.futures.Executor", args, kwargs, machine.round)


def _replaced(machine: Machine, args: Args, kwargs: Kwargs, _: ast.AST) -> Value:
    if not args or not isinstance(args[0], Instance):
        return Value()
    made = Instance(args[0].cls, machine.round)
    made.slots = {**args[0].slots, **kwargs}
    return made


def _collected(machine: Machine, args: Args, _: Kwargs, node: ast.AST) -> Value:
    machine.report("CG502", node, f"{quoted(node)} runs at capture only, and costs time")
    return number(mix("collected", len(args)))


def _null_context(machine: Machine, args: Args, _: Kwargs, __: ast.AST) -> Value:
    return Object("contextlib.nullcontext", args, {}, machine.round)


LIBRARY: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "functools.partial": _partial, "functools.partialmethod": _partial, "functools.wraps": _identity_decorator,
    "functools.lru_cache": _cache, "functools.cache": _cache, "functools.reduce": _reduce,
    "copy.deepcopy": _copied, "copy.copy": _copied,
    "itertools.chain": containers.chain, "itertools.chain.from_iterable": containers.chain, "itertools.islice": _islice,
    "itertools.count": _iterator("itertools.count"), "itertools.cycle": _iterator("itertools.cycle"),
    "itertools.repeat": _repeat, "itertools.zip_longest": builtins.zip_items,
    "collections.deque": containers.container("deque"), "collections.OrderedDict": containers.make_dict, "collections.defaultdict": containers.make_defaultdict,
    "collections.Counter": containers.make_counter, "types.SimpleNamespace": _namespace,
    "pickle.dumps": _saved, "pickle.dump": _saved, "torch.save": _saved, "joblib.dump": _saved,
    "threading.Thread": _threaded, "concurrent.futures.ThreadPoolExecutor": _executor,
    "multiprocessing.pool.ThreadPool": _executor,
    "contextlib.nullcontext": _null_context, "contextlib.suppress": _iterator("contextlib.suppress"),
    "contextlib.closing": _iterator("contextlib.closing"),
    "dataclasses.replace": _replaced,
    "gc.collect": _collected,
    "typing.cast": lambda _m, args, _k, _n: args[1] if len(args) > 1 else Value(),
}  # fmt: skip
