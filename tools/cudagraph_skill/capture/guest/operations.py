"""Observe dispatched operations: record their lines and values, capture each alone, watch a capture for errors."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cudagraph_skill.capture.guest import nodes, stack, tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from cudagraph_skill.capture.guest.stack import Frame, Place

_SAMPLE = 1024  # elements of an operation's result that are compared
_MAX_TENSORS = 48  # of one operation that are recorded
_MAX_TRIED = 20_000  # operations that are captured one by one
_captures = torch.cuda.is_current_stream_capturing  # not what `told_it_captures` puts in its place
_ASKS = re.compile("captur|tracing|compiling")  # in the names of helpers that only ask
_SMALL = 16  # elements up to which a CPU tensor is recorded like a number


class Operation(NamedTuple):
    """One dispatched operation, with the user's frames that led to it and those of a library below them.

    `scalars` are its numbers and small CPU tensors. `inputs` are the address of each tensor argument's storage, the address of
    its data, and the number of the operation that made it (-1: none of this recording). `outputs` are the addresses of the
    results' storages, `results` samples of their values, on the device. `captured` is whether its stream was capturing, `host`
    whether it worked on CPU tensors alone, `optimizer` whether torch.optim called it. `missed` is whether it computed on the GPU
    while a capture went on, on a stream that does not capture: then there are no samples. `at` is how many of the user's lines had
    run.
    """

    name: str
    stack: tuple[Frame, ...]
    scalars: tuple[Any, ...]
    shapes: tuple[Any, ...]
    inputs: tuple[tuple[int, int, int], ...]
    outputs: tuple[int, ...]
    results: tuple[torch.Tensor, ...]
    captured: bool
    host: bool
    optimizer: bool
    inside: tuple[Frame, ...] = ()
    missed: bool = False
    at: int = 0

    @property
    def library(self) -> Place | None:
        """Return the library's innermost line below the user's."""
        return self.inside[-1].place if self.inside else None

    @property
    def place(self) -> Place | None:
        """Return the user's innermost line."""
        return self.stack[-1].place if self.stack else None


def flat(value: Any) -> Iterator[Any]:
    """Yield the values in nested lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat(item)
    else:
        yield value


class Mode(TorchDispatchMode):
    """A dispatch mode within which nothing is compiled, so that each operation has its line.

    A higher-order operator such as `flex_attention` comes as one operation.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._stances = contextlib.ExitStack()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # what True does imports Dynamo, which takes seconds

    def __enter__(self) -> Self:
        if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
            self._stances.enter_context(torch.compiler.set_stance("force_eager"))
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._stances.close()


class Devices(Mode):
    """Sees whether anything runs on the GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.gpu = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.gpu = self.gpu or any(tensor.is_cuda for tensor in _tensors_in(flat([args, kwargs, out])))
        return out


class Coarsest(Mode):
    """Sees in how coarse numbers the GPU computes: `step` is the largest distance from 1 to the next number of a result's dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        dtypes = {tensor.dtype for tensor in _tensors_in(flat(out)) if tensor.is_cuda}
        self.step = max([self.step, *(torch.finfo(dtype).eps for dtype in dtypes & tensors.TOLERANCES.keys())])
        return out


class Recorder(Mode):
    """Records each operation with a sample of its results; under capture the graph refreshes the samples in each replay.

    `capturing`: it stands within a capture. Samples of work on other streams would allocate there, which breaks the capture.
    `trail` grows by the user's lines.
    """

    def __init__(self, capturing: bool = False, trail: Sequence[Any] = ()) -> None:
        super().__init__()
        self._capturing, self._trail = capturing, trail
        self.log: list[Operation] = []
        self._made: dict[int, int] = {}
        self._alive: list[Any] = []  # memory that is not used again while this records, so that an address names one tensor

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [*flat(args), *flat(kwargs)]
        taken = _tensors_in(given)
        # before the call, which may free or change them
        inputs = tuple(
            (memory(tensor), _address(tensor), self._made.get(memory(tensor), -1)) for tensor in taken[:_MAX_TENSORS]
        )
        scalars = tuple(_scalars(given))
        out = func(*args, **kwargs)
        made = _tensors_in(flat(out))
        on_gpu = any(tensor.is_cuda for tensor in (*taken, *made))
        own, inside = stack.stack()
        captured = on_gpu and _captures()
        missed = self._capturing and on_gpu and not captured
        self.log.append(
            Operation(
                name=str(func),
                stack=own,
                scalars=scalars,
                shapes=tuple(tuple(tensor.shape) for tensor in (*taken, *made)[:_MAX_TENSORS]),
                inputs=inputs,
                outputs=tuple(memory(tensor) for tensor in made[:_MAX_TENSORS]),
                results=() if missed else _samples(made or written(func, args, kwargs)),
                captured=captured,
                host=not on_gpu and bool(made) and _computes(func),
                optimizer=stack.through("/torch/optim/"),
                inside=inside,
                missed=missed and _computes(func),
                at=len(self._trail),
            )
        )
        for tensor in made:
            self._made.setdefault(memory(tensor), len(self.log) - 1)
        self._alive.append(made)
        return out


def _tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def memory(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 if it has none."""
    with contextlib.suppress(RuntimeError, NotImplementedError):
        return int(tensor.untyped_storage().data_ptr())
    return 0


def _address(tensor: torch.Tensor) -> int:
    with contextlib.suppress(RuntimeError, NotImplementedError):
        return int(tensor.data_ptr())
    return 0


def _scalars(given: list[Any]) -> Iterator[Any]:
    for item in given:
        if isinstance(item, (bool, int, float, complex, str)):
            yield item
        elif isinstance(item, torch.Tensor) and not item.is_cuda and item.numel() <= _SMALL and not item.is_meta:
            with contextlib.suppress(RuntimeError, NotImplementedError):
                yield tuple(flat(item.tolist()))


def _computes(func: Any) -> bool:
    """Return whether an operation on CPU tensors computes values, not views or empty memory."""
    return not any(
        word in str(func) for word in ("empty", "view", "detach", "alias", "as_strided", "lift", "pin_memory", "unsqueeze")
    )


def written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operation without a result changes, by its schema."""
    written = []
    schema = getattr(func, "_schema", None)  # a higher-order operator has none
    for number, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[number] if number < len(args) else kwargs.get(argument.name)
            written += [item for item in flat([given]) if isinstance(item, torch.Tensor)]
    return written


def _samples(results: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return samples of the values of an operation's results, on their device; none of a sparse one."""
    samples = []
    for tensor in results[:_MAX_TENSORS]:
        if tensor.layout is torch.strided and not tensor.is_meta:
            with contextlib.suppress(RuntimeError, NotImplementedError):
                samples.append(tensors.sample(tensors.dense(tensor).reshape(-1), _SAMPLE))
    return tuple(samples)


class Failure(NamedTuple):
    """A line that fails under capture: the operation, the error, the user's frames that lead there, a library's deepest line."""

    name: str
    error: str
    places: list[Place]
    library: Place | None = None


class Prober(Mode):
    """Captures each operation alone, then runs it eagerly, which finds all failing lines in one call."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        super().__init__()
        self.failures: list[Failure] = []
        self._stream, self._tried = stream, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._tried < _MAX_TRIED and _on_gpu(args, kwargs) and not str(func).startswith(("c10d", "_c10d")):
            self._tried += 1
            error = self._attempt(functools.partial(func, *args, **kwargs))
            if error:
                self.failures.append(Failure(str(func), error, stack.here(), stack.library()))
        return func(*args, **kwargs)

    def _attempt(self, run: Callable[[], object]) -> str:
        """Capture the operation alone and return the error; "" if there is none."""
        current = torch.cuda.current_stream()
        graph = torch.cuda.CUDAGraph()
        message = ""
        try:
            with torch.cuda.stream(self._stream):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    run()
                except Exception as error:  # noqa: BLE001 - whatever it raises is the result
                    message = _first_line(error)
                finally:
                    graph.capture_end()
        except Exception as error:  # noqa: BLE001
            message = message or _first_line(error)
        finally:
            torch.cuda.set_stream(current)
        return message


def _on_gpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an operation involves the GPU: a tensor there, or a device argument."""
    for item in (*flat(args), *flat(kwargs)):
        if isinstance(item, torch.Tensor) and item.is_cuda:
            return True
        if isinstance(item, torch.device) and item.type == "cuda":
            return True
    return False


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:300]


class Watcher(Mode):
    """Watches a capture: the first operation that raised or silently broke it, and the streams that were used."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = torch.cuda.current_stream()  # that of the capture: made within it
        self.broken: Failure | None = None
        self.others: dict[int, Failure] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            out = func(*args, **(kwargs or {}))
        except Exception as error:
            self._note(str(func), _first_line(error))
            raise
        if self.broken is None and nodes.capture_status(self.stream) == nodes.INVALIDATED:
            self._note(str(func), "")
        current = torch.cuda.current_stream()
        if current != self.stream:
            self.others[current.cuda_stream] = Failure(str(func), "", stack.here(), stack.library())
        return out

    def _note(self, name: str, error: str) -> None:
        if self.broken is None:
            self.broken = Failure(name, error, stack.here(), stack.library())


_WAITS = (
    (torch.cuda, "synchronize"),
    (torch.cuda.Stream, "synchronize"),
    (torch.cuda.Stream, "query"),
    (torch.cuda.Event, "synchronize"),
    (torch.cuda.Event, "query"),
    (torch.cuda.Event, "elapsed_time"),
)


@contextlib.contextmanager
def waits() -> Iterator[list[Failure]]:
    """Collect the calls that wait for the GPU but are not operations."""
    failures: list[Failure] = []
    before = [(owner, name, getattr(owner, name)) for owner, name in _WAITS]

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            failures.append(Failure(name, "", stack.here(), stack.library()))
            return real(*args, **kwargs)

        return call

    for owner, name, real in before:
        setattr(owner, name, watched(f"torch.cuda.{name}", real))
    try:
        yield failures
    finally:
        for owner, name, real in before:
            setattr(owner, name, real)


@contextlib.contextmanager
def joins() -> Iterator[set[tuple[int, int]]]:
    """Collect which stream waited for which, as (waiting, waited for)."""
    pairs: set[tuple[int, int]] = set()
    real = torch.cuda.Stream.wait_stream

    def wait_stream(self: torch.cuda.Stream, other: torch.cuda.Stream) -> None:
        pairs.add((self.cuda_stream, other.cuda_stream))
        real(self, other)

    torch.cuda.Stream.wait_stream = wait_stream
    try:
        yield pairs
    finally:
        torch.cuda.Stream.wait_stream = real


@contextlib.contextmanager
def told_it_captures() -> Iterator[list[Failure]]:
    """Answer yes to each line that asks whether the current stream captures; collect these lines."""
    lines: list[Failure] = []

    @functools.wraps(_captures)
    def is_current_stream_capturing() -> bool:
        if stack.rank(sys._getframe(1).f_code.co_filename) > 0:  # torch asks, too
            lines.append(Failure("is_current_stream_capturing", "", stack.here(), stack.library(without=_ASKS)))
        return True

    owners = [owner for owner in (torch.cuda, torch.cuda.graphs) if owner.is_current_stream_capturing is _captures]
    for owner in owners:
        owner.is_current_stream_capturing = is_current_stream_capturing
    try:
        yield lines
    finally:
        for owner in owners:
            owner.is_current_stream_capturing = _captures
