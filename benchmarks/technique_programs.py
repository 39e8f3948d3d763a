"""Programs of benchmarks/techniques.py: a piece of work as one would first capture it, and with one technique applied.

Each function returns one of the two as a `Work`; `moved` moves each of its weights by one unit in the last place, up or down.
The same seed, and as many warm-up calls, stand behind both, so that their results can be compared.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WARM_UPS = 3
_LAYER = ((768, 256), (768,), (256, 256), (256,), (1024, 256), (1024,), (256, 1024), *[(256,)] * 5)  # of a transformer


class Work(NamedTuple):
    """What is timed, what it leaves to be compared, and the graphs that it replays."""

    run: Callable[[], object]
    results: Callable[[], list[Tensor]]
    graphs: list[Any]


@cache
def side() -> Any:
    """Return the stream of the warm-up and of forked work: one, because each keeps a workspace of cuBLAS."""
    return torch.cuda.Stream()


def captured(step: Callable[[], object], stream: Any = None) -> Any:
    """Warm a step up and capture it; its nodes can be counted."""
    warm = stream or side()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        for _ in range(_WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(warm)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=stream):
        step()
    graph.instantiate()
    graph.step = step  # what it reads lives as long as the graph
    return graph


def one(step: Callable[[], object], results: Callable[[], list[Tensor]]) -> Work:
    """Return the work of replaying one graph of a step."""
    graph = captured(step)
    return Work(graph.replay, results, [graph])


def seeded(parameters: Iterable[Tensor], *, moved: bool) -> list[Tensor]:
    """Move weights by one unit in the last place if asked, and seed what comes after them."""
    known = list(parameters)
    with torch.no_grad():
        for weight in known if moved else ():
            weight.copy_(torch.nextafter(weight, weight + torch.empty_like(weight).uniform_(-1, 1)))
    torch.manual_seed(1)
    return known


def stack(width: int, depth: int, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Build a multilayer perceptron of one width."""
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers).to("cuda", dtype)


def nodes(way: str, *, moved: bool) -> Work:
    """Add to one element 1,000 times, or 100 times: the price of 900 nodes."""
    seeded([], moved=moved)
    count = torch.zeros(1, device="cuda")

    def step() -> None:
        for _ in range(1000 if way == "before" else 100):
            count.add_(1)

    return one(step, list)


def _optimizer(way: str, before: dict[str, Any], after: dict[str, Any], *, moved: bool) -> Work:
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(size, device="cuda")) for _ in range(12) for size in _LAYER]
    seeded(weights, moved=moved)
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    chosen = torch.optim.AdamW(weights, capturable=True, **(before if way == "before" else after))
    return one(chosen.step, lambda: [weight.detach() for weight in weights])


def fused_adamw(way: str, *, moved: bool) -> Work:
    """Step 144 parameters (9.5 M elements) with AdamW as it is, or fused."""
    return _optimizer(way, {}, {"fused": True}, moved=moved)


def foreach_adamw(way: str, *, moved: bool) -> Work:
    """Step the same parameters one by one, or as lists."""
    return _optimizer(way, {"foreach": False}, {"foreach": True}, moved=moved)


def flat_tail(way: str, *, moved: bool) -> Work:
    """Clip, step, average and cast the same 144 parameters: each its own tensor, or views of one."""
    torch.manual_seed(0)
    sizes = [torch.Size(size) for _ in range(12) for size in _LAYER]
    flat = torch.randn(sum(size.numel() for size in sizes), device="cuda")
    seeded([flat], moved=moved)
    gradient = torch.randn_like(flat)
    parts, gradients = (
        [part.view(size) for part, size in zip(_split(of, sizes), sizes, strict=True)] for of in (flat, gradient)
    )
    owned = [flat] if way == "after" else [nn.Parameter(part.clone()) for part in parts]
    start = gradient if way == "after" else gradients
    for weight, value in zip(owned, [start] if way == "after" else start, strict=True):
        weight.grad = value.clone()
    average, cast = ([weight.detach().to(dtype, copy=True) for weight in owned] for dtype in (torch.float32, torch.bfloat16))
    optimizer = torch.optim.AdamW(owned, capturable=True, fused=True)

    def step() -> None:
        nn.utils.clip_grad_norm_(owned, 1.0)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, list(owned), 0.01)
            torch._foreach_copy_(cast, list(owned))

    return one(step, lambda: [torch.cat([weight.detach().flatten() for weight in owned])])


def _split(flat: Tensor, sizes: list[torch.Size]) -> tuple[Tensor, ...]:
    return tuple(flat.split([size.numel() for size in sizes]))


def flat_buffers(way: str, *, moved: bool) -> Work:
    """Train 24 linear layers, clip and average the weights: 48 tensors, or one that holds them all."""
    model = stack(256, 24)
    params = seeded(model.parameters(), moved=moved)
    x = torch.randn(64, 256, device="cuda")
    flat = torch.cat([weight.detach().flatten() for weight in params]) if way == "after" else None
    if flat is not None:
        for weight, part in zip(params, flat.split([weight.numel() for weight in params]), strict=True):
            weight.data = part.view_as(weight)
    owned = params if flat is None else [flat]
    average = [weight.detach().clone() for weight in owned]
    optimizer = torch.optim.AdamW(owned, capturable=True, fused=True)
    if flat is not None:
        flat.grad = torch.zeros_like(flat)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        if flat is not None:
            torch.cat([weight.grad.flatten() for weight in params], out=flat.grad)
        nn.utils.clip_grad_norm_(owned, 1e-3)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, [weight.detach() for weight in owned], 0.01)

    return one(step, lambda: [weight.detach() for weight in params])


def one_cast(way: str, *, moved: bool) -> Work:
    """Add up gradients of four microbatches under bf16 autocast: a block for each, or one around all."""
    model = stack(1024, 8)
    params = seeded(model.parameters(), moved=moved)
    batches = torch.randn(4, 128, 1024, device="cuda")

    def step() -> None:
        model.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16) if way == "after" else nullcontext():
            for x in batches:
                with torch.autocast("cuda", torch.bfloat16):
                    loss = model(x).float().square().mean()
                with torch.autocast("cuda", enabled=False):
                    loss.backward()

    return one(step, lambda: [weight.grad for weight in params])


def _twins(way: str, count: int, *, moved: bool, by_hand: bool) -> Work:
    torch.manual_seed(0)
    nets = [
        nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)) for _ in range(count)
    ]
    nets = [net.cuda() for net in nets]
    seeded([weight for net in nets for weight in net.parameters()], moved=moved)
    x, y = torch.randn(256, 64, device="cuda"), torch.randn(256, 1, device="cuda")
    stacked, _ = torch.func.stack_module_state(nets)

    def apart() -> None:
        for net in nets:
            net.zero_grad(set_to_none=True)
        sum((net(x) - y).square().mean() for net in nets).backward()

    def together() -> None:
        for weight in stacked.values():
            weight.grad = None
        if by_hand:
            out = x.expand(count, -1, -1)
            for layer in (0, 2, 4):
                out = torch.baddbmm(stacked[f"{layer}.bias"][:, None], out, stacked[f"{layer}.weight"].mT)
                out = out.relu() if layer < 4 else out
        else:
            out = torch.vmap(lambda state: torch.func.functional_call(nets[0], state, (x,)))(stacked)
        (out - y).square().mean((1, 2)).sum().backward()

    if way == "before":
        return one(apart, lambda: [torch.stack([net[layer].weight.grad for net in nets]) for layer in (0, 2, 4)])
    return one(together, lambda: [stacked[f"{layer}.weight"].grad for layer in (0, 2, 4)])


def twins(way: str, *, moved: bool) -> Work:
    """Train two critics one after the other, or as batched products by hand."""
    return _twins(way, 2, moved=moved, by_hand=True)


def twins_vmap(way: str, *, moved: bool) -> Work:
    """Train two critics one after the other, or with torch.vmap."""
    return _twins(way, 2, moved=moved, by_hand=False)


def ensemble(way: str, *, moved: bool) -> Work:
    """Train ten critics one after the other, or as batched products by hand."""
    return _twins(way, 10, moved=moved, by_hand=True)


class _ForkedLinear(torch.autograd.Function):
    """A product whose weight's gradient is written on another stream."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, held: list[Tensor] | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.held = held
        return x @ weight.mT

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        x, weight = ctx.saved_tensors
        [grad] = grads
        if ctx.held is None:
            torch.mm(grad.mT, x, out=weight.grad)
        else:
            ctx.held += [x, grad]  # until the join: memory that is freed here could be used again before the fork reads it
            side().wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side()):
                torch.mm(grad.mT, x, out=weight.grad)
        return grad @ weight, None, None


def weight_gradients(way: str, *, moved: bool) -> Work:
    """Train ten layers of 512, batch 64: gradients of the weights in line, or on a forked stream."""
    return _forked_gradients(way, 512, moved=moved)


def wide_gradients(way: str, *, moved: bool) -> Work:
    """Do the same with layers of 2048."""
    return _forked_gradients(way, 2048, moved=moved)


def _forked_gradients(way: str, width: int, *, moved: bool) -> Work:
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(width, width, device="cuda", dtype=torch.bfloat16) / width**0.5) for _ in range(10)]
    seeded(weights, moved=moved)
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    x = torch.randn(64, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        held: list[Tensor] | None = [] if way == "after" else None
        out = x
        for weight in weights:
            out = _ForkedLinear.apply(out, weight, held).relu()
        torch.autograd.grad(out.square().mean(), x)
        if way == "after":
            torch.cuda.current_stream().wait_stream(side())

    return one(step, lambda: [weight.grad for weight in weights])


def branches(way: str, *, moved: bool) -> Work:
    """Run four towers of six layers, batch 64, one after the other, or each on a stream that is forked and joined."""
    towers = [stack(256, 6) for _ in range(4)]
    seeded([weight for tower in towers for weight in tower.parameters()], moved=moved)
    x = torch.randn(64, 256, device="cuda")
    streams = [torch.cuda.Stream() for _ in towers[1:]] if way == "after" else []
    outs: list[Tensor] = []

    def step() -> None:
        main = torch.cuda.current_stream()
        with torch.no_grad():
            done = []
            for tower, stream in zip(towers[1:], streams or [main] * 3, strict=True):
                stream.wait_stream(main)
                with torch.cuda.stream(stream):
                    done.append(tower(x))
            done.append(towers[0](x))
            for stream in streams:
                main.wait_stream(stream)
        outs[:] = done

    return one(step, lambda: outs)


def packing(way: str, *, moved: bool) -> Work:
    """Run a block of width 512 over 16 sequences of 32 to 512 tokens: padded to 512 each, or packed into 3,072."""
    from torch.nn.attention.varlen import varlen_attn

    torch.manual_seed(0)
    qkv, out, up, down = (nn.Linear(*size, device="cuda", dtype=torch.bfloat16) for size in _BLOCK)
    seeded([weight for layer in (qkv, out, up, down) for weight in layer.parameters()], moved=moved)
    lengths = [32, 48, 64, 64, 80, 96, 112, 128, 128, 160, 192, 224, 256, 320, 384, 512]
    rows = [torch.randn(length, 512, device="cuda", dtype=torch.bfloat16) for length in lengths]
    padded = torch.stack([F.pad(row, (0, 0, 0, 512 - len(row))) for row in rows])
    packed = F.pad(torch.cat(rows), (0, 0, 0, 3072 - sum(lengths)))
    ends = torch.tensor([0, *lengths, 0, 0], device="cuda").cumsum(0).to(torch.int32)  # two unused places: empty sequences
    real = torch.arange(512, device="cuda") < torch.tensor(lengths, device="cuda")[:, None]
    kept: list[Tensor] = []

    def step() -> None:
        with torch.no_grad():
            x = padded if way == "before" else packed
            q, k, v = qkv(x).unflatten(-1, (3, 8, 64)).unbind(-3)
            if way == "before":
                q, k, v = (part.transpose(1, 2) for part in (q, k, v))
                mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None]).transpose(1, 2)
            else:
                mixed = varlen_attn(q, k, v, ends, ends, 512, 512)
            x = x + out(mixed.flatten(-2))
            kept[:] = [x + down(F.gelu(up(x)))]

    used = sum(lengths)
    return one(step, lambda: [kept[0][real] if way == "before" else kept[0][:used]])


_BLOCK = ((512, 1536), (512, 512), (512, 2048), (2048, 512))
